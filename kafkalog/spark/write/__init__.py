"""Write partition directories from Spark."""
