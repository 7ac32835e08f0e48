/* Element-wise micro-kernels in plain C; included by rows.c alone. */
static void lut8(size_t n, const uint8_t *x, const uint8_t *table, uint8_t *y) {
  for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}
