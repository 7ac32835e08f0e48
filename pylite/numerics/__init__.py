"""The exact arithmetic of lowering: multipliers, rounding rules, lookup tables (docs/numerics.md)."""
