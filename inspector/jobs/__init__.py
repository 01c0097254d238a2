"""Long work (verify, search, statistics, transactions) in a process of its own: no key press waits for it.

    screen  ── runs.start() ──  the job   >  process.main
            <─ Frame, Frame ...

A thread would hold Python's lock for milliseconds at a time. A process does not, runs at a lower priority, and can be
killed at any moment. `jobs` does the work, `process` runs it, `runs` is what screens look at.
"""
