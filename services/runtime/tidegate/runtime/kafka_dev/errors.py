"""What can go wrong before or while a development broker runs."""


class DevKafkaError(RuntimeError):
    """A broker could not be fetched, started or kept running; the message says what to do."""
