"""OpResolverType, which tf.lite has; apart, since making an enumeration takes long and few ask for this one."""
import enum


class OpResolverType(enum.Enum):
    """Which kernels to use in tf.lite.  pylite has one set, equal to BUILTIN_REF, and takes any of these."""
    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3
