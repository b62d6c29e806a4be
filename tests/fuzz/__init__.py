"""Whatever a stranger can send, as functions that a fuzzer feeds: nothing may be raised but what is meant to be."""
