"""The shipped headers compile under every name, and their structs have the layout of existing binaries."""
import ctypes
import re
from pathlib import Path

import pytest

from pylite.plugins.host import layouts
from pylite.schema import tables
from tests.capi.compiling import compile_check

C_HEADERS = ["c/common.h", "c/c_api.h", "c/c_api_types.h", "c/c_api_opaque.h", "c/builtin_op_data.h",
             "c/c_api_internal.h", "c/operator.h", "c/registration_external.h", "builtin_ops.h", "context.h",
             "core/c/common.h", "core/c/c_api_opaque.h", "core/c/builtin_op_data.h",
             "delegates/external/external_delegate_interface.h"]
CPP_HEADERS = [*C_HEADERS, "context_util.h", "util.h", "kernels/kernel_util.h", "mutable_op_resolver.h",
               "core/api/profiler.h"]
PREFIXES = ["tensorflow/lite", "tflite", "third_party/tensorflow/lite"]

# Offsets that plug-in binaries since TensorFlow 2.5 rely on, on 64-bit machines: struct -> "field offset ... sizeof".
FACTS = {
    "TfLiteContext": "tensors_size 0 GetExecutionPlan 8 tensors 16 impl_ 24 ResizeTensor 32 ReportError 40 AddTensors "
                     "48 GetNodeAndRegistration 56 ReplaceNodeSubsetsWithDelegateKernels 64 recommended_num_threads "
                     "72 GetExternalContext 80 SetExternalContext 88 allow_fp32_relax_to_fp16 96 profiler 104 "
                     "AllocatePersistentBuffer 112 AllocateBufferForEval 120 RequestScratchBufferInArena 128 "
                     "GetScratchBuffer 136 ResizeTensorExplicit 144 PreviewDelegatePartitioning 152 GetTensor 160 "
                     "GetEvalTensor 168 GetModelMetadata 176 AcquireSubgraphContext 184 ReleaseSubgraphContext 192 "
                     "sizeof 200",
    "TfLiteTensor": "type 0 data 8 dims 16 params 24 allocation_type 32 bytes 40 allocation 48 name 56 delegate 64 "
                    "buffer_handle 72 data_is_stale 76 is_variable 77 quantization 80 sparsity 96 dims_signature 104 "
                    "sizeof 112",
    "TfLiteNode": "inputs 0 outputs 8 intermediates 16 temporaries 24 user_data 32 builtin_data 40 "
                  "custom_initial_data 48 custom_initial_data_size 56 delegate 64 might_have_side_effect 72 sizeof 80",
    "TfLiteRegistration": "init 0 free 8 prepare 16 invoke 24 profiling_string 32 builtin_code 40 custom_name 48 "
                          "version 56 registration_external 64 async_kernel 72 inplace_operator 80 sizeof 88",
    "TfLiteDelegate": "data_ 0 Prepare 8 CopyFromBufferHandle 16 CopyToBufferHandle 24 FreeBufferHandle 32 flags 40 "
                      "opaque_delegate_builder 48 sizeof 56",
    "TfLiteDelegateParams": "delegate 0 nodes_to_replace 8 input_tensors 16 output_tensors 24 sizeof 32",
    "TfLiteOpaqueDelegateParams": "delegate 0 delegate_data 8 nodes_to_replace 16 input_tensors 24 output_tensors 32 "
                                  "sizeof 40",
    "TfLiteOpaqueDelegateBuilder": "data 0 Prepare 8 CopyFromBufferHandle 16 CopyToBufferHandle 24 FreeBufferHandle 32 "
                                   "flags 40 sizeof 48",
    "TfLiteAffineQuantization": "scale 0 zero_point 8 quantized_dimension 16 sizeof 24",
    "TfLiteSparsity": "traversal_order 0 block_map 8 dim_metadata 16 dim_metadata_size 24 sizeof 32",
    "TfLiteDimensionMetadata": "format 0 dense_size 4 array_segments 8 array_indices 16 sizeof 24",
    "TfLiteExternalContext": "type 0 Refresh 8 sizeof 16",
    "TfLiteIntArray": "size 0 data 4 sizeof 4",
    "TfLiteConvParams": "padding 0 stride_width 4 activation 12 dilation_width_factor 16 quantized_bias_type 24 "
                        "sizeof 28",
    "TfLiteFullyConnectedParams": "activation 0 weights_format 4 keep_num_dims 8 quantized_bias_type 12 sizeof 16",
    "TfLiteStridedSliceParams": "shrink_axis_mask 16 offset 20 sizeof 24",
    "TfLiteTransposeConvParams": "activation 12 sizeof 20",
    "TfLiteReshapeParams": "shape 0 num_dimensions 32 sizeof 36",
    "TfLitePoolParams": "filter_width 12 activation 20 sizeof 40",
}


@pytest.mark.parametrize("language", ["c", "cc"])
def test_headers_compile_alone_under_every_name(tmp_path, language):
    headers = C_HEADERS if language == "c" else CPP_HEADERS
    flags = ["-std=c99", "-pedantic"] if language == "c" else ["-std=c++11"]
    for number, name in enumerate(f"{prefix}/{header}" for prefix in PREFIXES for header in headers):
        source = tmp_path / f"one{number}.{language}"
        source.write_text(f'#include "{name}"\n')
        compile_check(source, *flags, "-Wall", "-Wextra", "-Werror")


@pytest.mark.parametrize("language", ["c", "cc"])
def test_all_functions_compile_without_warnings(tmp_path, language):
    """Not only as parts of a header, where compilers keep many warnings back."""
    source = tmp_path / f"all.{language}"
    source.write_text("#define TFL_INLINE\n" + "".join(
        f'#include "tensorflow/lite/{header}"\n' for header in (C_HEADERS if language == "c" else CPP_HEADERS)))
    compile_check(source, "-std=c99" if language == "c" else "-std=c++11", "-Wall", "-Wextra", "-Wshadow", "-Werror")


def test_the_documents_list_the_headers():
    """docs/plugins-c-reference.md says exactly which headers of TensorFlow Lite there are."""
    root = layouts.HEADER.parents[1]
    there = {path.relative_to(root).as_posix() for path in root.rglob("*.h")} - {"c/common_inline.h"}
    there -= {name for name in there if re.match("core/(?!api/)", name)}        # other names of the same
    text = (Path(__file__).parents[2] / "docs" / "plugins-c-reference.md").read_text()
    table = text.split("| header |", 1)[1].split("\n\n", 1)[0]
    assert set(re.findall(r"`([\w/]+\.h)`", table)) == there


def test_names_may_be_mixed(tmp_path):
    source = tmp_path / "mixed.c"
    source.write_text("".join(f'#include "{p}/{h}"\n' for h in C_HEADERS for p in PREFIXES))
    compile_check(source)


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="offsets are those of 64-bit machines")
def test_layouts_are_those_of_binaries(tmp_path):
    lines = ['#include "tensorflow/lite/c/builtin_op_data.h"']
    for struct, facts in FACTS.items():
        words = facts.split()
        for field, offset in zip(words[::2], words[1::2], strict=True):
            what = f"sizeof({struct})" if field == "sizeof" else f"offsetof({struct}, {field})"
            lines.append(f'_Static_assert({what} == {offset}, "{struct}.{field}");')
    source = tmp_path / "facts.c"
    source.write_text("\n".join([*lines, *layouts.assertions(), ""]))
    compile_check(source)


def test_op_numbers_are_those_of_the_schema():
    text = (layouts.HEADER.parents[1] / "builtin_ops.h").read_text()
    for name, number in tables.enum_numbers("BuiltinOperator").items():
        assert f"kTfLiteBuiltin{''.join(part.capitalize() for part in name.split('_'))} = {number}" in text


def test_every_parameter_comes_from_an_option():
    computed = {("Pool", "computed")}
    for name, stem in layouts._STRUCTS.items():
        options = tables.default_options(name)
        for field, _, _ in layouts.structs()[f"TfLite{stem}Params"].declared:
            option = layouts.option_of(field)
            assert hasattr(options, option) or (stem, field) in computed, (name, field, option)


def test_parameters_hold_the_options():
    from types import SimpleNamespace

    def operator(name, **options):
        defaults = tables.default_options(name)
        for key, value in options.items():
            setattr(defaults, key, value)
        return SimpleNamespace(name=name, custom=False, options=defaults)

    conv, _ = layouts.builtin_data(operator("CONV_2D", padding="VALID", stride_w=2, stride_h=3, dilation_w_factor=4,
                                            fused_activation_function="RELU6"))
    assert (conv.padding, conv.stride_width, conv.stride_height, conv.activation) == (2, 2, 3, 3)
    assert (conv.dilation_width_factor, conv.dilation_height_factor, conv.quantized_bias_type) == (4, 1, 1)
    reshape, _ = layouts.builtin_data(operator("RESHAPE", new_shape=(2, -1)))
    assert reshape.num_dimensions == 2 and list(reshape.shape)[:3] == [2, -1, 0]
    quant, _ = layouts.builtin_data(operator("FAKE_QUANT", num_bits=5, narrow_range=True, min=-1.0))
    assert (quant.num_bits, quant.narrow_range, quant.min) == (5, True, -1.0)
    handle, kept = layouts.builtin_data(operator("VAR_HANDLE", container="c", shared_name="name"))
    assert ctypes.string_at(handle.shared_name) == b"name" and len(kept) == 2
    assert layouts.builtin_data(operator("TANH")) == (None, ())
