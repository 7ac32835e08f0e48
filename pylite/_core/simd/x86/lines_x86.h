/* lines8 for AVX2 and AVX-512; included by portable_unary.h alone, after lut8_plain(). */
#if defined(__AVX512BW__)
#define V8(name) _mm512_##name
#define V8_BITS(name) _mm512_##name##_si512
typedef __m512i bytes8;
#else
#define V8(name) _mm256_##name
#define V8_BITS(name) _mm256_##name##_si256
typedef __m256i bytes8;
#endif
PL_INLINE bytes8 line8(bytes8 x, int line, const pl_lines8 *p) { /* x: operands in the upper bytes of words */
  return V8(adds_epi16)(V8(mulhi_epi16)(x, V8(set1_epi16)(p->slope[line])), V8(set1_epi16)((short)p->start[line]));
}
PL_INLINE bytes8 long_line8(bytes8 x, const pl_lines8 *p) { /* products are 256 times as large */
  const bytes8 slope = V8(set1_epi32)(p->slope[0] * (1 << 16)), start = V8(set1_epi32)(p->start[0] * (1 << 8));
  const bytes8 zero = V8_BITS(setzero)();
  const __m128i shift = _mm_cvtsi32_si128(p->shift + 8);
  const bytes8 low = V8(madd_epi16)(V8(unpacklo_epi16)(zero, x), slope);
  const bytes8 high = V8(madd_epi16)(V8(unpackhi_epi16)(zero, x), slope);
  return V8(packs_epi32)(V8(sra_epi32)(V8(add_epi32)(low, start), shift),
                         V8(sra_epi32)(V8(add_epi32)(high, start), shift));
}
PL_INLINE bytes8 larger_line8(bytes8 x, int lines, __m128i shift, const pl_lines8 *p) {
  if (!lines) return long_line8(x, p);
  const bytes8 first = line8(x, 0, p);
  return V8(sra_epi16)(lines == 1 ? first : V8(max_epi16)(first, line8(x, 1, p)), shift);
}
PL_INLINE void lines8_of(size_t n, const uint8_t *x, uint8_t *y, int lines, int plain, const pl_lines8 *p) {
  const bytes8 x_flip = V8(set1_epi8)((char)p->x_flip), y_flip = V8(set1_epi8)((char)p->y_flip);
  const bytes8 low = V8(set1_epi8)(p->low), high = V8(set1_epi8)(p->high), zero = V8_BITS(setzero)();
  const __m128i shift = _mm_cvtsi32_si128(p->shift);
  size_t i = 0;
  for (; i + sizeof zero <= n; i += sizeof zero) {
    bytes8 v = V8_BITS(loadu)((const void *)(x + i));
    if (!plain) v = V8_BITS(xor)(v, x_flip);
    const bytes8 a = larger_line8(V8(unpacklo_epi8)(zero, v), lines, shift, p);
    const bytes8 b = larger_line8(V8(unpackhi_epi8)(zero, v), lines, shift, p);
    bytes8 r = V8(packs_epi16)(a, b);
    if (!plain) r = V8_BITS(xor)(V8(min_epi8)(V8(max_epi8)(r, low), high), y_flip);
    V8_BITS(storeu)((void *)(y + i), r);
  }
  lut8_plain(n - i, x + i, y + i, p->table);
}
PL_LINES8(lines8_of)
