"""Everything that crosses a boundary, as data: frames, requests, what readers are shown, events."""
