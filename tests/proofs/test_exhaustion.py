"""Rules whose inputs are few enough to try them all, in C."""
import shutil
import subprocess
from pathlib import Path

import pytest

SIMD = Path(__file__).parents[2] / "pylite" / "_core" / "simd"
# Quotients never fall as the sum grows, so that the last sum before each multiple of the divisor decides.
AVERAGE = r"""
#include <stdint.h>
#include <stdio.h>
int main(void) {
  for (int32_t taps = 1; taps < 1 << 24; taps++)
    for (int32_t q = 1; (int64_t)q * taps < 1 << 24; q++) {
      const int32_t first = q * taps;
      if ((int32_t)((float)first / (float)taps) != q || (int32_t)((float)(first - 1) / (float)taps) != q - 1)
        return printf("%d / %d\n", first, taps), 1;
    }
  return 0;
}
"""
# Every float32: rounded in float64, where it is exact.
ROUND_AWAY = r"""
#include "rounding.h"
#include <stdio.h>
#include <string.h>
int main(void) {
  uint32_t bits = 0;
  do {
    float v;
    memcpy(&v, &bits, 4);
    const double r = round((double)v);
    const int32_t want = r >= -2147483648.0 && r < 2147483648.0 ? (int32_t)r : INT32_MIN;
    if (pl_round_away32(v) != want) return printf("%a\n", v), 1;
  } while (++bits);
  return 0;
}
"""


def run(source, folder):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    path = folder / "proof.c"
    path.write_text(source)
    subprocess.run([compiler, "-O2", "-fwrapv", "-ffp-contract=off", f"-I{SIMD}", path, "-o", folder / "proof", "-lm"],
                   check=True)
    done = subprocess.run([folder / "proof"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"counterexample: {done.stdout}"


def test_the_float32_quotient_of_average_pool_is_the_integer_quotient(tmp_path):
    run(AVERAGE, tmp_path)


def test_every_float32_is_rounded_halves_away_from_zero(tmp_path):
    run(ROUND_AWAY, tmp_path)
