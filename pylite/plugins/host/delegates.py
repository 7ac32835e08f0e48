"""Delegates in shared libraries: creating one, applying it to a graph, and the Op of a node that it runs."""
import ctypes
import os

from pylite._core.capi.hosting import STATUS
from pylite._core.capi.plugin_structs import DelegateHandle, delegate_flags, delegate_is_plausible
from pylite.errors import DelegateError, DelegationError, PluginError
from pylite.plugins.delegation import DelegateFlags
from pylite.plugins.host import libraries
from pylite.plugins.host.nodes import NativeNodeOp
from pylite.plugins.host.plugin_structs import DYNAMIC, structs_of

_report_t = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def create(library, path, options):
    """The DelegateHandle of a new delegate; DelegateError with the messages of the library if it returns none.

    options: {name: text}.
    """
    messages = []
    report = _report_t(lambda text: messages.append(text.decode("utf-8", "replace")))
    count = len(options)
    keys, values = ((ctypes.c_char_p * count)(*[text.encode() for text in side])
                    for side in (options.keys(), options.values()))
    address = None
    try:
        address = libraries.call(library.tflite_plugin_create_delegate, ctypes.addressof(keys),
                                 ctypes.addressof(values), count, ctypes.cast(report, ctypes.c_void_p))
    except PluginError as error:
        messages.append(str(error))
    if not address:
        raise DelegateError(f"Failed to load delegate from {os.fspath(path)}\n{''.join(messages)}")
    if not delegate_is_plausible(address):
        raise DelegateError(f"Failed to load delegate from {os.fspath(path)}\n"
                            "its tflite_plugin_create_delegate() did not return a TfLiteDelegate")
    return DelegateHandle(address, ctypes.cast(library.tflite_plugin_destroy_delegate, ctypes.c_void_p).value)


def flags(address):
    return delegate_flags(address)


def modify(delegate, delegation):
    """Let `delegate`, a pylite.Delegate, take nodes of a Delegation.

    Its Prepare() calls the functions that the PluginHost has only meanwhile.  DelegationError if it fails.
    """
    libraries.activate_guards()
    executor = delegation.executor
    structs = structs_of(executor)
    host = structs.host
    structs.update(delegation)
    host.keep_alive(delegate._handle)
    if not delegate.flags & DelegateFlags.ALLOW_DYNAMIC_TENSORS:
        _check_static(structs)
    lent = []       # the PluginHosts of other subgraphs that its Prepare() has acquired
    host.replace = _replacing(delegate, delegation, structs)
    host.partition = lambda nodes: [(part.nodes, part.inputs, part.outputs)
                                    for part in delegation.partitioned(nodes) if part.claimed]
    host.metadata = executor.model.graph.metadata.get
    host.subgraph = _lending(executor.shared.executors, lent)
    try:
        status = host.apply_delegate(delegate._get_native_delegate_pointer())
        if host.pending is not None:
            error, host.pending = host.pending, None
            raise error
        if status:
            raise DelegationError(f"its Prepare() failed ({STATUS[min(status, len(STATUS) - 1)]}): {host.errors()}")
        host.log(f"Prepare() of {delegate!r}")
    except BaseException:
        structs.remove_delegates()
        raise
    finally:
        host.replace = host.partition = host.metadata = host.subgraph = None
        for other in lent:      # it may not have released them
            other.take_back()


def _check_static(structs):
    """Raise DelegationError if the graph has tensors whose sizes are found at run time, other than strings."""
    host = structs.host
    dynamic = [i for i in range(host.model_tensors)
               if host.facts(i)[2] == DYNAMIC and structs.subgraph.tensors[i].dtype != "string"]
    if dynamic:
        raise DelegationError(f"it supports only tensors of fixed size, and the graph has dynamic ones: {dynamic}")


def _replacing(delegate, delegation, structs):
    """The function by which a delegate replaces nodes by a kernel, a registration or an operator."""
    host = structs.host

    def replace(nodes, registration, operator, address):
        def make(added, part):
            status = host.add_delegate_node(part.nodes, part.inputs, part.outputs, registration, operator, address)
            if status:
                why = host.errors()
                raise DelegationError(f"the kernel for nodes {list(part.nodes)} failed to initialize "
                                      f"({STATUS[status]}){': ' if why else ''}{why}")
            structs.native += 1
            return NativePartitionOp(structs, delegation, added, part, host.custom_name(added.index))
        before = host.num_nodes
        try:
            delegation.replace(nodes, delegate, make)
        finally:
            if operator and host.num_nodes > before:
                host.own_operator(host.num_nodes - 1)
        host.set_plan(delegation.plan)
    return replace


def _lending(executors, lent):
    """The function by which a delegate acquires the PluginHost of another subgraph, which is appended to `lent`."""
    def subgraph(index):
        if index not in executors:
            return None
        lent.append(structs_of(executors[index]).host)
        return lent[-1]
    return subgraph


class NativePartitionOp(NativeNodeOp):
    """The Op of a node that runs a partition with a delegate's kernel."""

    def __init__(self, structs, delegation, operator, part, name):
        super().__init__(structs, operator.index, name or "DELEGATE")
        self.delegation = delegation
        self._inner = {t for i in part.nodes for t in delegation.operators[i].outputs if t >= 0}

    def infer(self, node):
        known = self.delegation.values
        if known is not None:
            self.delegation.infer_inner(node.index, node.values)
            self.structs.set_shapes(known)
            self.structs.set_shapes([node.values[index] for index in self._inner])
        return super().infer(node)

    def close(self):
        super().close()
        self.structs.remove_delegate_node()
