"""What a frontier does, one topic per module: its commands, its flow and how its replies are read."""
