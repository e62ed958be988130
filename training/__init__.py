"""How the toy model was made, from nothing: its text, its tokenizer, its training and its record."""
