"""Data directories damaged in every way that an operator may meet, and what a real broker does with them."""
