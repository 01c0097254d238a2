"""Small files beside the segments: checkpoints, leader epochs, partition.metadata, the clean shutdown file."""
