"""The names of the TensorFlow ops in `pylite.flex`, by module."""

# Module of pylite.flex -> its ops.  In a model each has the prefix Flex.
HOMES = {module: names.split() for module, names in {
    "arrays": "Bincount Cross Cumprod DenseBincount MatrixInverse Roll",
    "boxes": "CombinedNonMaxSuppression CropAndResize NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 "
             "NonMaxSuppressionV4 NonMaxSuppressionV5",
    "elementwise": "Acos Acosh Angle Asin Asinh Atan Atan2 Atanh Complex ComplexAbs Conj Cosh Erf Erfc Expm1 Imag Inv "
                   "IsFinite IsInf IsNan Lgamma Log1p Real Reciprocal Rint Selu Sinh Softplus Softsign Tan Xdivy "
                   "Xlog1py Xlogy",
    "images": "AdjustContrastv2 ExtractImagePatches HSVToRGB RGBToHSV ResizeBicubic",
    "sound": "AudioSpectrogram FFT FFT2D IFFT IFFT2D IRFFT IRFFT2D Mfcc RFFT RFFT2D",
    "tensor_lists": "EmptyTensorList TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem "
                    "TensorListLength TensorListPopBack TensorListPushBack TensorListReserve TensorListResize "
                    "TensorListSetItem TensorListStack",
}.items()}
PREFIX = "Flex"


def is_flex(name: str) -> bool:
    """Is this custom code one of TensorFlow's own ops?"""
    return name.startswith(PREFIX) and name[len(PREFIX):len(PREFIX) + 1].isupper()


def has(name: str) -> bool:
    """Does pylite.flex have the op of this custom code, such as "FlexErf"?"""
    return is_flex(name) and any(name[len(PREFIX):] in ops for ops in HOMES.values())
