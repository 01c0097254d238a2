"""The views of a partition, one file each; `view_table` lists them."""
