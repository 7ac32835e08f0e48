/* The most frequent casts; wide.c has all others; included by portable.c alone.
 *
 * Signed and unsigned integers of one size have the same bits.  i8 names both as the type of results, and as the type
 * of operands where their sign does not matter; i16, i32 and i64 likewise. */
UNARY_KERNEL(cast_f32_u8, float, uint8_t, none_p, (int32_t)pl_clampf(x != x ? 255.0f : x, 0.0f, 255.0f))
UNARY_KERNEL(cast_f32_i8, float, int8_t, none_p, (int32_t)pl_clampf(x != x ? 127.0f : x, -128.0f, 127.0f))
UNARY_KERNEL(cast_f32_i16, float, int16_t, none_p, (int32_t)pl_clampf(x != x ? 32767.0f : x, -32768.0f, 32767.0f))
UNARY_TIGHT(cast_f32_i32, float, int32_t, none_p,
             x >= 2147483648.0f || x != x ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : (int32_t)x)
UNARY_KERNEL(cast_f32_i64, float, int64_t, none_p,
             x >= 0x1p63f || x != x ? INT64_MAX : x < -0x1p63f ? INT64_MIN : (int64_t)x)
UNARY_TIGHT(cast_f32_bool, float, uint8_t, none_p, x != 0.0f)
UNARY_TIGHT(cast_i32_f32, int32_t, float, none_p, (float)x)
UNARY_KERNEL(cast_i64_f32, int64_t, float, none_p, (float)x)
UNARY_TIGHT(cast_bool_f32, uint8_t, float, none_p, x != 0 ? 1.0f : 0.0f)
#define INTEGER_CAST(name, X_TYPE, Y_TYPE) UNARY_KERNEL(name, X_TYPE, Y_TYPE, none_p, x)
INTEGER_CAST(cast_i8_i16, int8_t, int16_t)
INTEGER_CAST(cast_i8_i32, int8_t, int32_t)
INTEGER_CAST(cast_i8_i64, int8_t, int64_t)
INTEGER_CAST(cast_u8_i16, uint8_t, int16_t)
INTEGER_CAST(cast_u8_i32, uint8_t, int32_t)
INTEGER_CAST(cast_u8_i64, uint8_t, int64_t)
INTEGER_CAST(cast_i16_i8, int16_t, int8_t)
INTEGER_CAST(cast_i16_i32, int16_t, int32_t)
INTEGER_CAST(cast_i16_i64, int16_t, int64_t)
INTEGER_CAST(cast_i32_i8, int32_t, int8_t)
INTEGER_CAST(cast_i32_i16, int32_t, int16_t)
INTEGER_CAST(cast_i32_i64, int32_t, int64_t)
INTEGER_CAST(cast_i64_i8, int64_t, int8_t)
INTEGER_CAST(cast_i64_i16, int64_t, int16_t)
INTEGER_CAST(cast_i64_i32, int64_t, int32_t)
#define TRUTH_CAST(name, X_TYPE, Y_TYPE) UNARY_KERNEL(name, X_TYPE, Y_TYPE, none_p, x != 0)
TRUTH_CAST(cast_bool_i8, uint8_t, int8_t) /* a byte of a bool may hold any number */
TRUTH_CAST(cast_bool_i16, uint8_t, int16_t)
TRUTH_CAST(cast_bool_i32, uint8_t, int32_t)
TRUTH_CAST(cast_bool_i64, uint8_t, int64_t)
TRUTH_CAST(cast_i16_bool, int16_t, uint8_t)
TRUTH_CAST(cast_i32_bool, int32_t, uint8_t)
TRUTH_CAST(cast_i64_bool, int64_t, uint8_t)
