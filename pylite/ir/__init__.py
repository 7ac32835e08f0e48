"""The intermediate representation: graph records, values and calls, lowered graphs, shapes, the registry of ops."""
