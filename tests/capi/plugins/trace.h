// A log of the calls of a test plug-in; take_trace() returns and clears it.
#include <string.h>

static char trace[1 << 16];

TFL_CAPI_EXPORT const char* take_trace(void) {
  static char taken[sizeof(trace)];
  memcpy(taken, trace, sizeof(trace));
  trace[0] = 0;
  return taken;
}
