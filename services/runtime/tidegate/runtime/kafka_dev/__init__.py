"""Real Apache Kafka for developers and tests: fetched through Maven, run on the machine's own Java."""
