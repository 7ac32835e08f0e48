/* libFuzzer on the micro-kernels: draw.h says what a check does.  Built and run by .ci/fuzz. */
#include "draw.h"
#include "x86/subnormals.h"
#include <math.h>
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA = 1 << 22, GUARD = 64, MOST_ARRAYS = 64, LEVELS = PL_MAX_ISA_LEVELS };
typedef struct {
  uint8_t *at, *kept; /* kept: the contents of an input; NULL where it may be written */
  size_t item, bytes, front;
  closeness how;
} memory;

static _Alignas(64) uint8_t arena[ARENA], copies[ARENA];
static size_t used, copied_bytes, begun; /* begun: `used` when the levels began */
static memory inputs[MOST_ARRAYS], wanted[MOST_ARRAYS], got[MOST_ARRAYS];
static int input_count, wanted_count, got_count;
static pl_slots tables[LEVELS];
static const char *names[LEVELS];
static int levels, level;
const check *now;

/* ---- the input ---- */
static const uint8_t *left, *end;
static uint8_t byte(void) { return left < end ? *left++ : 0; }
int between(int low, int high) {
  const uint32_t span = (uint32_t)high - (uint32_t)low;
  uint32_t v = byte();
  for (uint32_t more = span >> 8; more; more >>= 8) v = v << 8 | byte();
  return (int)((uint32_t)low + (span == UINT32_MAX ? v : v % (span + 1)));
}
bool chance(int in) { return !between(0, in - 1); }
size_t some(size_t least, size_t most) {
  return (size_t)between((int)least, chance(2) && least + 20 < most ? (int)least + 20 : (int)most);
}
int32_t multiplier(void) {
  return chance(4) ? INT32_MAX : chance(3) ? 1 << 30 : between(1 << 30, INT32_MAX);
}
float real(void) { return (float)between(1, 65535) * 0x1p-14f; }

/* ---- arrays ---- */
static uint64_t state;
static uint64_t word(void) { /* xorshift: an array takes two bytes of input */
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}
static void begin_words(void) { state = 0x9E3779B97F4A7C15u ^ ((uint64_t)byte() << 8 | byte()) * 0xD1342543DE82EF95u; }

static uint8_t *take(size_t bytes, size_t item) {
  used = (used + GUARD + 63) / 64 * 64;
  if (used + bytes + 128 > ARENA) abort();
  uint8_t *at = arena + used + (item < 16 && level == 0 ? (size_t)between(0, 3) * item : item);
  used = (size_t)(at - arena) + bytes;
  ASAN_UNPOISON_MEMORY_REGION(at, bytes);
  return at;
}
static uint8_t *input(size_t n, size_t item) {
  uint8_t *at = take(n * item, item);
  if (input_count == MOST_ARRAYS || copied_bytes + n * item > ARENA) abort();
  inputs[input_count++] = (memory){at, copies + copied_bytes, item, n * item, 0, EXACT};
  copied_bytes += n * item;
  return at;
}
void *array(size_t n, size_t item) {
  uint8_t *at = input(n, item);
  const size_t bytes = n * item, size = item < 8 ? item : 8;
  const int kind = between(0, 5);
  begin_words();
  for (size_t i = 0; i < bytes; i += size) {
    const uint64_t all = word(), least = (uint64_t)1 << (8 * size - 1), ends = all >> 63 ? least : least - 1;
    const uint64_t v = kind == 0 ? ends : kind == 1 ? state % 7 - 3 : kind == 2 && i ? 0 : all;
    if (kind == 2 && i) memcpy(at + i, at, size); /* one number everywhere */
    else memcpy(at + i, &v, size);
  }
  if (kind == 3)
    for (size_t i = 0; i < bytes && left < end; i++) at[i] = byte();
  return at;
}
void *integers(size_t n, size_t item, int low, int high) {
  uint8_t *at = input(n, item);
  const int kind = between(0, 3);
  const uint64_t span = (uint64_t)((int64_t)high - low) + 1;
  begin_words();
  for (size_t i = 0; i < n; i++) {
    const int64_t v = kind == 0 ? (word() >> 63 ? low : high) : low + (int64_t)(word() % span);
    memcpy(at + i * item, &v, item);
  }
  return at;
}
float *whole(size_t n, int most) {
  float *at = (float *)input(n, sizeof(float));
  begin_words();
  for (size_t i = 0; i < n; i++) at[i] = (float)((int)(word() % (uint64_t)(2 * most + 1)) - most);
  return at;
}
uint16_t *halves(size_t n) {
  uint16_t *v = array(n, 2);
  for (size_t i = 0; i < n; i++) v[i] &= 0xBFFF;
  return v;
}
float *floats(size_t n) {
  static const float odd[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 0.5f, -1.5f, 2.5f, 88.5f, -104, 1e4f};
  float *at = (float *)input(n, sizeof(float));
  const int kind = between(0, 3);
  const float scale = kind == 3 ? 0x1p-18f : 0x1p-28f;
  begin_words();
  for (size_t i = 0; i < n; i++) {
    const uint32_t v = (uint32_t)word();
    at[i] = (float)(int32_t)v * scale;
    if (kind == 0) memcpy(at + i, &v, 4);
    if (kind == 1 && v % 4 == 0) at[i] = odd[v / 4 % (sizeof odd / sizeof *odd)];
  }
  return at;
}
void *copied(const void *from, size_t n, size_t item) { return memcpy(input(n, item), from, n * item); }
void *room(size_t n, size_t item) { return memset(take(n * item, item), 0, n * item); }

void flush_subnormals(void) { pl_set_float_mode(pl_float_mode() | PL_FLUSH_BITS); }

/* ---- results ---- */
void *result(size_t n, size_t item, const void *before, size_t front, closeness how) {
  uint8_t *at = take(n * item, item);
  if (before) memcpy(at, before, n * item);
  else memset(at, 0x5A, n * item);
  const memory made = {at, NULL, item, n * item, front * item, how};
  if (level == 0) wanted[wanted_count++] = made;
  else got[got_count++] = made;
  if (wanted_count == MOST_ARRAYS) abort();
  return at;
}
static void failed(const char *what, int number) {
  fprintf(stderr, "%s on %s: %s %d\n", now->name, names[level], what, number);
  abort();
}
static float from_half(uint16_t h) {
  const float magnitude = (h & 0x7C00) == 0x7C00 ? (h & 0x3FF ? NAN : INFINITY)
                          : h & 0x7C00 ? ldexpf((float)((h & 0x3FF) | 0x400), ((h >> 10) & 31) - 25)
                                       : ldexpf((float)(h & 0x3FF), -24);
  return h & 0x8000 ? -magnitude : magnitude;
}
static bool near(float a, float b, float tolerance, float scale) {
  const float larger = fmaxf(fmaxf(fabsf(a), fabsf(b)), scale);
  return a == b || (a != a && b != b) || fabsf(a - b) <= tolerance * larger + 1e-30f ||
         (larger == INFINITY && fminf(fabsf(a), fabsf(b)) > 3.4e38f && (a < 0) == (b < 0));
}
/* The first element at which results differ, or -1. */
static ptrdiff_t difference(const memory *a, const memory *b) {
  const float *x = (const float *)a->at, *y = (const float *)b->at;
  float largest = 0;
  for (size_t i = 0; i < a->front / 4 && a->how == NEAR_LARGEST; i++)
    if (isfinite(x[i])) largest = fmaxf(largest, fabsf(x[i]));
  if (a->how == EXACT && !memcmp(a->at, b->at, a->front)) return -1;
  for (size_t i = 0; i < a->front / a->item; i++) {
    const uint16_t p = a->how == NEAR_HALF ? ((const uint16_t *)a->at)[i] : 0;
    const uint16_t q = a->how == NEAR_HALF ? ((const uint16_t *)b->at)[i] : 0;
    const bool same = a->how == EXACT ? !memcmp(a->at + i * a->item, b->at + i * a->item, a->item)
                      : a->how == NEAR_HALF ? p == q || near(from_half(p), from_half(q), 2e-3f, 1e-4f)
                                            : near(x[i], y[i], 2e-5f, largest);
    if (!same) return (ptrdiff_t)i;
  }
  return -1;
}
static void compare(int number) {
  const memory *a = wanted + number, *b = got + number;
  const ptrdiff_t i = difference(a, b);
  if (i < 0) return;
  fprintf(stderr, "element %td:", i);
  for (const memory *m = a;; m = b) {
    for (size_t k = 0; k < a->item; k++) fprintf(stderr, "%s%02x", k ? "" : " ", m->at[(size_t)i * a->item + k]);
    if (a->item == 4) fprintf(stderr, " (%.9g)", (double)((const float *)m->at)[i]);
    if (m == b) break;
  }
  fprintf(stderr, "\n");
  failed("other than base in result", number);
}

const pl_slots *first_level(void) {
  for (int i = 0; i < input_count; i++) memcpy(inputs[i].kept, inputs[i].at, inputs[i].bytes);
  level = wanted_count = got_count = 0;
  begun = used;
  return tables;
}
const pl_slots *next_level(void) {
  for (int i = 0; i < input_count; i++)
    if (memcmp(inputs[i].kept, inputs[i].at, inputs[i].bytes)) failed("wrote to input", i);
  for (int i = 0; i < got_count; i++) compare(i);
  if (level == 0) begun = used; /* base's results are kept */
  ASAN_POISON_MEMORY_REGION(arena + begun, used + GUARD - begun);
  used = begun, got_count = 0;
  return ++level < levels ? tables + level : (level = 0, NULL);
}

/* ---- libFuzzer ---- */
static const check *const groups[] = {element_checks,   moving_checks,  reducing_checks,
                                      recurring_checks, product_checks, depthwise_checks};
static const check *checks[512];
static int count;

static bool is_checked(const char *slot) {
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
    for (const check *c = groups[g]; c->name; c++)
      if (!strcmp(slot, c->name)) return true;
  return !strcmp(slot, "pack_b_q8") || !strcmp(slot, "pack_a_q8") || !strcmp(slot, "fit_q8"); /* by those of products */
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  for (const pl_isa_level *l = pl_isa_levels; l->name; l++) {
    if (!l->usable()) continue;
    names[levels] = l->name;
    l->portable(tables + levels);
    l->hand_written(tables + levels);
    levels++;
  }
  const char *only = getenv("SLOT");
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
    for (const check *c = groups[g]; c->name; c++)
      if (!only || !*only || !strcmp(only, c->name)) checks[count++] = c;
#define X(name, args) \
  if (!is_checked(#name)) fprintf(stderr, "no check of " #name "\n"), abort();
  PL_SLOTS(X)
#undef X
  if (!count) fprintf(stderr, "no check is called %s\n", only), abort();
  fprintf(stderr, "%d checks; levels:", count);
  for (int i = 0; i < levels; i++) fprintf(stderr, " %s", names[i]);
  fprintf(stderr, "\n");
  ASAN_POISON_MEMORY_REGION(arena, ARENA);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  left = data, end = data + size;
  now = checks[between(0, count - 1)];
  const unsigned mode = pl_float_mode();
  now->run();
  pl_set_float_mode(mode);
  ASAN_POISON_MEMORY_REGION(arena, used + GUARD);
  used = copied_bytes = 0, input_count = 0;
  return 0;
}
