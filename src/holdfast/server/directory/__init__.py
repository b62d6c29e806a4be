"""The rooms by name: finding, making and entering them."""
