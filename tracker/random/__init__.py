"""Random draws: ordered effects on a generator, which a trace records and replays."""
