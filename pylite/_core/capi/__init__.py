"""The C host of plug-ins; host.h lists its files."""
