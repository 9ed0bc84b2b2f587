"""Changes that may make the result of a program the same on any number of devices: they undo what people do."""
