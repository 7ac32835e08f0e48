/* Results of softmax and log-softmax of bytes for NEON, eight at a time; included by portable_softmax.h alone. */
#include <arm_neon.h>

/* RDBPOT(SRDHM(e, r), -left), clamped to 16 bits.  No number is negative, so vqrdmulh and vrshl round as these do. */
PL_INLINE uint16x8_t softmax_8_eight(const int32_t *e, int32x4_t r, int32x4_t left) {
  const int32x4_t low = vqrdmulhq_s32(vld1q_s32(e), r), high = vqrdmulhq_s32(vld1q_s32(e + 4), r);
  return vcombine_u16(vqmovun_s32(vrshlq_s32(low, left)), vqmovun_s32(vrshlq_s32(high, left)));
}
PL_INLINE void softmax_8_store(uint16x8_t v, uint8_t flip, uint8_t *y) {
  vst1_u8(y, veor_u8(vqmovn_u16(v), vdup_n_u8(flip)));
}
PL_INLINE void softmax_8_to_16_store(uint16x8_t v, uint8_t flip, int16_t *y) {
  (void)flip;
  vst1q_s16(y, vreinterpretq_s16_u16(veorq_u16(v, vdupq_n_u16(0x8000))));
}

/* The loop of log_softmax_8_results() for multiples of 8.  vrshr rounds halves up, so negative numbers are lowered by
 * one before. */
PL_INLINE size_t log_softmax_8_eights(size_t n, const int32_t *e, uint8_t flip, uint8_t *y) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    int32x4_t low = vld1q_s32(e + i), high = vld1q_s32(e + i + 4);
    low = vrshrq_n_s32(vsraq_n_s32(low, low, 31), 22), high = vrshrq_n_s32(vsraq_n_s32(high, high, 31), 22);
    const int16x8_t v = vaddq_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)), vdupq_n_s16(255));
    vst1_u8(y + i, veor_u8(vqmovun_s16(v), vdup_n_u8(flip)));
  }
  return i;
}
