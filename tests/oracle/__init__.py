"""Tests whose truth is Kafka's own code, run from its jars: they skip, and say why, where Java or Maven is missing."""
