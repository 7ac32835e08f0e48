"""The host of plug-ins in C, in layers from bottom to top; the structs that plug-ins see are in pylite._core.capi.

layouts, symbols, libraries     builtin_data as structs; functions that a library exports; loading libraries
plugin_structs                  the PluginHost of a subgraph, filled from the model
nodes                           the Op of a node that a plug-in runs
custom_ops, delegates           registrations of ops, and delegates, from libraries
"""
