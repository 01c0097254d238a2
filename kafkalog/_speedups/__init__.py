"""The compiled kernels: functions from bytes to arrays. DESIGN.md states their contract."""

try:
    import kafkalog._speedups.arguments  # noqa: F401 - any one of the modules, to test whether they are compiled
except ModuleNotFoundError as error:
    if error.name != "kafkalog._speedups.arguments":
        raise
    _source = __file__.rpartition("kafkalog")[0]
    raise ImportError(
        f"{_source} holds kafkalog's source, which is not compiled for this Python, and comes before any kafkalog that "
        f"is installed: `pip install -e {_source}` compiles it in place, or start Python in another directory"
    ) from None
