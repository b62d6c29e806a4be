"""Everything that crosses a boundary, as data: frames, requests, answers, events, records, files."""
