"""Static memory planning: sizes and lifetimes in, offsets out."""
