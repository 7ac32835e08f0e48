"""The code in TensorFlow Lite's guides to plug-ins compiles with the shipped headers under all names, and runs.

The guides are beside the checkout.  Corrections of their misprints are pairs of (pattern, replacement).
"""
import json
import re
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from tests.capi.chains import model
from tests.capi.compiling import build, compile_check
from tests.capi.test_headers import PREFIXES
from tests.tools import resources

HEADER, CUSTOM_OPS, OLDER_DELEGATES, DELEGATES, INFERENCE = range(5)     # numbers of the documents
CONVOLUTIONS = Path(__file__).parents[2] / "examples/delegate_python/two_convolutions.tflite"

# The guide to custom ops has each piece of code on one line, which must not have comments, and dots for omitted code.
PIECES = [(r"// (Singleton instance, \w+ \w+ \w+\.|anonymous namespace|namespace \w+)", ""),
          (r"(void \w*Free\([^)]*\)) \{ ?\.\.\. ?\}", r"\1 {}"), (r"\{ ?\.\.\. ?\}", "{ return NOTHING; }"),
          (r"\.\.\.", "")]
# It calls functions by wrong names, reads a field of an opaque type, ends an initializer too early, and assigns a
# pointer to const to one to non-const.
NAMES = [("NodeNumInputs", "NodeNumberOfInputs"), ("NodeNumOutputs", "NodeNumberOfOutputs"),
         ("TensorNumDimensions", "TensorNumDims"), (r"input->dims->data\[i\]", "TfLiteOpaqueTensorDim(input, i)"),
         (r"\bTfLiteTensor(Type|GetAllocationType|Data)\(", r"TfLiteOpaqueTensor\1("), ("temp_Tensor", "temp_tensor"),
         (r"(\.registration_external = \w+\(\));", r"\1"),
         (r"const TfLiteRegistrationExternal\*", "TfLiteRegistrationExternal*")]
ATAN = [(r"\(r, (Prepare|Eval)\)", r"(r, Atan\1)")]
TEMPLATE = [(r"\(r, Eval\)", "(r, Invoke)"), ("MyCustomOpEval", "MyCustomOpInvoke")]
CPP = [(r"\(\)\[\]", "[]()"), (r"return r; \};", "return r; }();"), ("NOTHING", "{}"),
       (r"(TfLiteRegistration\* \w+\(\) .*return )", r"\1&")]
C = [(r"static_cast<float\*>", "(float*)"), ("NOTHING", "0"),
     (r"static (TfLiteRegistrationExternal\*) (\w+) =", r"static \1 volatile \2; \2 ="),
     (r"static const (TfLiteRegistration \w+) \{", r"const \1 = {")]

# The guide to delegates has a class without code, and three mistakes.
DELEGATE = [(r"bool Init\(\) \{\}", "bool Init(TfLiteContext*, const TfLiteDelegateParams*) { return true; }"),
            (r"bool ((?:Prepare|Invoke)\(.*?\)) \{\}", r"TfLiteStatus \1 { return kTfLiteOk; }"),
            (r"Init\(context, params\)", "Init(context, delegate_params)"),
            (r": TfLiteIntArrayView", ": tflite::TfLiteIntArrayView"), (r"return status\n", "return status;\n")]
PLUGIN = """
extern "C" __attribute__((visibility("default"))) TfLiteDelegate* tflite_plugin_create_delegate(
    const char* const*, const char* const*, size_t, void (*)(const char*)) { return CreateMyDelegate(); }
extern "C" __attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(TfLiteDelegate* d) { delete d; }
"""


def corrected(text, *corrections):
    for pattern, replacement in corrections:
        text = re.sub(pattern, replacement, text)
    return text


def line(document, first):
    """The only line that begins with `first`."""
    (found,) = [text for text in document.splitlines() if text.startswith(first)]
    return found


def run(library, functions, kind, x):
    """The output of the op in a library for the input x."""
    (op,) = pylite.load_custom_ops(library, functions, kind, register=False)
    known = resolver.BuiltinOpResolver()
    known.add_custom(op.name, op)
    i = pylite.Interpreter(model_content=model(op.name), op_resolver=known)
    i.resize_tensor_input(0, x.shape)
    i.allocate_tensors()
    i.set_tensor(0, x)
    i.invoke()
    return i.get_tensor(1)


def under(prefix, code):
    """Code whose headers are included under another name."""
    return re.sub(r'#include "(third_party/)?tensorflow/lite/', f'#include "{prefix}/', code)


# ---- The header of 2019 ----

def test_every_name_of_the_header_is_known(tmp_path):
    text = re.sub(r"^\d+ ?", "", resources.document(HEADER).replace("\xa0", " "), flags=re.M)
    text = re.sub(r"//.*", "", text[text.index("*/") + 2:])
    functions = re.findall(r"^[\w* ]+ (TfLite\w+)\(", text, re.M)
    values = sorted(set(re.findall(r"\bkTfLite\w+", text)))
    macros = re.findall(r"#define (\w+)\(", text)
    code = ['#include "tensorflow/lite/c/c_api_internal.h"', "int main(void) {"]
    code += [f"  (void)&{name};" for name in functions] + [f"  (void){name};" for name in values]
    count = 0
    for content, struct in re.findall(r"typedef (?:struct|union)(?: \w+)? \{(.*?)\n\} (\w+);", text, re.S):
        content = re.sub(r"#if.*?#else(.*?)#endif", r"\1", content, flags=re.S)
        content = re.sub(r"\([^()]*\);", ";", content)     # parameters of functions
        for field in re.findall(r"\(\*(\w+)\);|(\w+)(?:\[\])?(?:, \w+)?;", content):
            code.append(f"  (void)offsetof({struct}, {''.join(field)});")
            count += 1
    code += ["  return kOptionalTensor;", "}"]
    code += [text for name in macros for text in (f"#ifndef {name}", f"#error {name}", "#endif")]
    assert len(functions) >= 16 and len(values) >= 25 and len(macros) == 6 and count >= 76
    (tmp_path / "names.c").write_text("\n".join([*code, ""]))
    compile_check(tmp_path / "names.c", "-Werror")


# ---- Custom ops ----

def op_source(tmp_path, prefix, language, first, *corrections):
    document = resources.document(CUSTOM_OPS)
    includes = "".join(f"{text}\n" for text in document.splitlines() if text.startswith("#include"))
    code = corrected(line(document, first), *PIECES, *NAMES, *corrections, *(CPP if language == "cc" else C))
    source = tmp_path / f"op.{language}"
    source.write_text(f"#include <math.h>\n{under(prefix, includes)}{code}\n")
    return source


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("language", "first", "function"), [
    ("cc", "namespace atan_op", "atan_op::AtanOpRegistration"),
    ("c", "static TfLiteStatus AtanPrepare", "AtanOpRegistration")])
def test_atan(tmp_path, prefix, language, first, function):
    source = op_source(tmp_path, prefix, language, first, *ATAN)
    library = build(source, tmp_path / "atan.so", "-lm")
    x, y = (np.array(json.loads(line(resources.document(CUSTOM_OPS), f"{name} = [")[4:]), np.float32) for name in "xy")
    result = run(library, {"Atan": function}, "value", x + 1)       # the guide's model adds a trained constant
    np.testing.assert_allclose(result, y, rtol=1e-6)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(("language", "first"), [("cc", "namespace my_namespace::my_custom_op { namespace"),
                                                 ("c", "static void* MyCustomOpInit"), ("cc", "struct MyOpData")])
def test_templates_of_ops(tmp_path, prefix, language, first):
    flags = ["-std=c++17"] if language == "cc" else ["-std=gnu11"]
    compile_check(op_source(tmp_path, prefix, language, first, *TEMPLATE), *flags)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_registration_in_cpp(tmp_path, prefix):
    """The guide to inference: four functions, and a function that returns their registration."""
    document = resources.document(INFERENCE)
    code = document[document.index("namespace tflite {"):]
    code = code[:code.index("}  // namespace tflite")] + "}\n"
    source = tmp_path / "op.cc"
    source.write_text(under(prefix, '#include "tensorflow/lite/context.h"\n') + """
    namespace my_custom_op {
    void* Init(TfLiteContext*, const char*, size_t) { return nullptr; }
    void Free(TfLiteContext*, void*) {}
    TfLiteStatus Prepare(TfLiteContext*, TfLiteNode*) { return kTfLiteOk; }
    TfLiteStatus Eval(TfLiteContext* context, TfLiteNode* node) {
      context->tensors[node->outputs->data[0]].data.f[0] = 7;
      return kTfLiteOk;
    }
    }
    """ + code)
    library = build(source, tmp_path / "op.so")
    function = "tflite::ops::custom::Register_MY_CUSTOM_OP"
    assert run(library, {"Mine": function}, "classic", np.ones(4, np.float32))[0, 0] == 7


# ---- Delegates ----

def delegate_code(number):
    document = resources.document(number)
    code = document[document.index('#include "tensorflow/lite/util.h"'):]
    return code[:code.index("// To add the delegate")]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("initialized", [True, False])
def test_delegate(tmp_path, prefix, initialized):
    """Also with a registration that is not initialized, as in the guide."""
    code = corrected(delegate_code(DELEGATES), *DELEGATE)
    if initialized:
        code = code.replace("TfLiteRegistration kernel_registration;", "TfLiteRegistration kernel_registration{};")
    source = tmp_path / "delegate.cc"
    source.write_text("#include <vector>\n" + under(prefix, code) + PLUGIN)
    delegate = pylite.load_delegate(build(source, tmp_path / "delegate.so"))
    i = pylite.Interpreter(str(CONVOLUTIONS), experimental_delegates=[delegate])
    i.allocate_tensors()
    i.invoke()
    assert [op["op_name"] for op in i._get_ops_details()][4:] == ["DELEGATE", "DELEGATE"]


def test_the_older_guide_has_the_same_code():
    """The older guide to delegates has the same code with missing lines."""
    whole = {text.strip() for text in delegate_code(DELEGATES).splitlines()}
    torn = [text.strip() for text in delegate_code(OLDER_DELEGATES).splitlines()]
    assert len(torn) > 80 and set(torn) <= whole
