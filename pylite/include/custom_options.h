// Reads the options of a custom op, which are a FlexBuffer of names and values: init() gets its bytes and their number.
//
// Every access is checked, so that damaged bytes are never read beyond their end.  The functions return `otherwise` for
// an option that is missing or has another type.  If you have flatbuffers/flexbuffers.h, you can use that instead.
#ifndef PYLITE_CUSTOM_OPTIONS_H
#define PYLITE_CUSTOM_OPTIONS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct pl_option {
  const uint8_t *data;      // the buffer; NULL: there is no such option
  size_t size, at, width;   // bytes of the buffer; offset of the value, and its bytes
  int type;                 // FlexBuffers' type code; its lower 2 bits are the width of the data that it refers to
} pl_option;

enum {
  PL_OPTION_INT = 1, PL_OPTION_UINT, PL_OPTION_FLOAT, PL_OPTION_KEY, PL_OPTION_STRING, PL_OPTION_FAR_INT,
  PL_OPTION_FAR_UINT, PL_OPTION_FAR_FLOAT, PL_OPTION_MAP, PL_OPTION_VECTOR, PL_OPTION_INTS, PL_OPTION_UINTS,
  PL_OPTION_FLOATS, PL_OPTION_FIRST_TUPLE = 16, PL_OPTION_LAST_TUPLE = 24, PL_OPTION_BOOL = 26, PL_OPTION_BOOLS = 36
};

static inline uint64_t pl_option_bits(const uint8_t *data, size_t size, size_t offset, size_t width) {
  uint64_t bits = 0;
  if (width > 8 || offset > size || size - offset < width) return 0;
  for (size_t i = 0; i < width; i++) bits |= (uint64_t)data[offset + i] << 8 * i;
  return bits;
}

// The position that the offset stored at `position` refers to, or SIZE_MAX.
static inline size_t pl_option_target(const uint8_t *data, size_t size, size_t position, size_t width) {
  const uint64_t offset = pl_option_bits(data, size, position, width);
  return offset <= position && position < size ? position - (size_t)offset : SIZE_MAX;
}

static inline pl_option pl_option_none(void) {
  pl_option none = {NULL, 0, 0, 0, 0};
  return none;
}

// The number of elements of the vector or map at `start`, which is stored before it; 0 if they do not fit.
static inline size_t pl_option_length(const uint8_t *data, size_t size, size_t start, size_t width) {
  if (start == SIZE_MAX || start < width || start > size) return 0;
  const uint64_t length = pl_option_bits(data, size, start - width, width);
  return length <= (size - start) / width ? (size_t)length : 0;
}

// The option `name` of the buffer.
static inline pl_option pl_option_find(const void *options, size_t size, const char *name) {
  const uint8_t *data = (const uint8_t *)options;
  if (data == NULL || size < 3 || data[size - 2] >> 2 != PL_OPTION_MAP || data[size - 1] > size - 2) return pl_option_none();
  const size_t width = (size_t)1 << (data[size - 2] & 3);
  const size_t map = pl_option_target(data, size, size - 2 - data[size - 1], data[size - 1]);
  const size_t length = pl_option_length(data, size, map, width);
  if (length == 0 || map < 3 * width || (size - map) / length < width + 1) return pl_option_none();
  const size_t keys = pl_option_target(data, size, map - 3 * width, width);
  const size_t key_width = (size_t)pl_option_bits(data, size, map - 2 * width, width);
  if (key_width == 0 || key_width > 8 || pl_option_length(data, size, keys, key_width) < length) return pl_option_none();
  for (size_t i = 0; i < length; i++) {
    const size_t key = pl_option_target(data, size, keys + i * key_width, key_width), bytes = strlen(name) + 1;
    if (key < size && size - key >= bytes && memcmp(data + key, name, bytes) == 0) {
      pl_option option = {data, size, map + i * width, width, data[map + length * width + i]};
      return option;
    }
  }
  return pl_option_none();
}

// Stores a number as an integer and as a real number; returns 0 if the option is not a number.
static inline int pl_option_number(pl_option o, int64_t *integer, double *real) {
  int type = o.type >> 2;
  size_t offset = o.at, width = o.width;
  if (o.data == NULL) return 0;
  if (type >= PL_OPTION_FAR_INT && type <= PL_OPTION_FAR_FLOAT) {
    offset = pl_option_target(o.data, o.size, offset, width);
    width = (size_t)1 << (o.type & 3);
    type -= PL_OPTION_FAR_INT - PL_OPTION_INT;
  }
  if (offset > o.size || o.size - offset < width) return 0;
  const uint64_t bits = pl_option_bits(o.data, o.size, offset, width);
  if (type == PL_OPTION_FLOAT && width == 4) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, 4);
    *real = value;
  } else if (type == PL_OPTION_FLOAT && width == 8) {
    memcpy(real, &bits, 8);
  } else if (type == PL_OPTION_INT || type == PL_OPTION_UINT || type == PL_OPTION_BOOL) {
    const uint64_t sign = (uint64_t)1 << (8 * width - 1);
    *integer = (int64_t)(type == PL_OPTION_INT ? (bits ^ sign) - sign : bits);
    *real = (double)*integer;
    return 1;
  } else {
    return 0;
  }
  *integer = *real >= -9.2e18 && *real <= 9.2e18 ? (int64_t)*real : 0;
  return 1;
}

static inline int64_t pl_option_int(const void *options, size_t size, const char *name, int64_t otherwise) {
  double real;
  pl_option_number(pl_option_find(options, size, name), &otherwise, &real);
  return otherwise;
}

static inline double pl_option_float(const void *options, size_t size, const char *name, double otherwise) {
  int64_t integer;
  pl_option_number(pl_option_find(options, size, name), &integer, &otherwise);
  return otherwise;
}

// The text and, unless it is NULL, its *length without the 0 at its end; NULL if there is none.
static inline const char *pl_option_string(const void *options, size_t size, const char *name, size_t *length) {
  const pl_option o = pl_option_find(options, size, name);
  if (o.data == NULL || o.type >> 2 != PL_OPTION_STRING) return NULL;
  const size_t width = (size_t)1 << (o.type & 3), text = pl_option_target(o.data, o.size, o.at, o.width);
  if (text == SIZE_MAX || text < width) return NULL;
  const uint64_t bytes = pl_option_bits(o.data, o.size, text - width, width);
  if (bytes >= o.size - text || o.data[text + bytes] != 0) return NULL;
  if (length != NULL) *length = (size_t)bytes;
  return (const char *)o.data + text;
}

// The numbers of a list, at most `most` of them, to `values`; returns their number, -1 if there is no such list.
static inline int pl_option_list(const void *options, size_t size, const char *name, double *values, int most) {
  const pl_option o = pl_option_find(options, size, name);
  const int type = o.type >> 2;
  const int tuple = type >= PL_OPTION_FIRST_TUPLE && type <= PL_OPTION_LAST_TUPLE;
  const int typed = (type >= PL_OPTION_INTS && type <= PL_OPTION_FLOATS) || type == PL_OPTION_BOOLS;
  if (o.data == NULL || !(tuple || typed || type == PL_OPTION_VECTOR)) return -1;
  const size_t width = (size_t)1 << (o.type & 3), first = pl_option_target(o.data, o.size, o.at, o.width);
  size_t length = tuple ? (size_t)(type - PL_OPTION_FIRST_TUPLE) / 3 + 2 : pl_option_length(o.data, o.size, first, width);
  if (first > o.size || (o.size - first) / width < length) return -1;
  for (size_t i = 0; i < length && (int)i < most; i++) {
    pl_option element = {o.data, o.size, first + i * width, width, 0};
    int64_t integer;
    if (tuple) element.type = (PL_OPTION_INT + (type - PL_OPTION_FIRST_TUPLE) % 3) << 2;
    else if (type == PL_OPTION_BOOLS) element.type = PL_OPTION_BOOL << 2;
    else if (typed) element.type = (PL_OPTION_INT + type - PL_OPTION_INTS) << 2;
    else element.type = (int)pl_option_bits(o.data, o.size, first + length * width + i, 1);
    if (!pl_option_number(element, &integer, &values[i])) return -1;
  }
  return (int)length;
}
#endif
