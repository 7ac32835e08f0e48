"""OpResolverType.  Imported on demand: few programs use it, and making an enumeration takes long."""
import enum


class OpResolverType(enum.Enum):
    """tf.lite's choice of kernels.  pylite has one set, with the results of BUILTIN_REF, and accepts every member."""
    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3
