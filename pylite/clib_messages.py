"""The text of exceptions for programs in C: it names the functions of TensorFlow Lite's C API, not Python's."""
import re

from pylite import errors

IN_C = {
    r"\ballocate_tensors\(\)": "TfLiteInterpreterAllocateTensors()",
    r"\bresize_tensor_input\(\)": "TfLiteInterpreterResizeInputTensor()",
    r"\bset_tensor\(\)": "TfLiteTensorCopyFromBuffer()",
    r"\bget_tensor\(\)": "TfLiteTensorCopyToBuffer()",
    r"\bpylite\.custom_op\([^()]*\)(, load it with pylite\.load_custom_ops\(\) if it is in C)?":
        "TfLiteInterpreterOptionsAddCustomOp()",
    r"\bexperimental_delegates=\[load_delegate\(([^()]*)\)\]":
        r"TfLiteInterpreterOptionsAddDelegate() the delegate of \1",
}


def described(problem: BaseException) -> bytes:
    """The text of an exception for a C program, with the name of its type unless that is one of pylite's."""
    text = str(problem)
    for pattern, name in IN_C.items():
        text = re.sub(pattern, name, text)
    if not text or not isinstance(problem, errors.PyliteError):
        text = f"{type(problem).__name__}{': ' if text else ''}{text}"
    return text.encode("utf-8", "backslashreplace")
