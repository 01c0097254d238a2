"""The compiled kernels: functions from bytes to arrays. DESIGN.md states their contract."""
