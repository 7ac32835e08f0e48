"""Custom ops and delegates: in Python, behind function pointers, and in shared libraries."""
