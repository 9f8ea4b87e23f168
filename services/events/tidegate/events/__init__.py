"""The contract: event types, config types, money, codec, ids, journal, relay, archive and the log port."""
