"""How answers come about, and what all answers to an item say together."""
