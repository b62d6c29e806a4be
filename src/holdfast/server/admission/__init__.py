"""The way in: doors, who may come through them, and as whom."""
