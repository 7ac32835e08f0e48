// What plug-ins for tests note: a text that take_trace() gives away.
#include <string.h>

static char trace[1 << 16];

TFL_CAPI_EXPORT const char* take_trace(void) {
  static char taken[sizeof(trace)];
  memcpy(taken, trace, sizeof(trace));
  trace[0] = 0;
  return taken;
}
