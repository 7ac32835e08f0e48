// context->profiler: an object of the C++ class tflite::Profiler, with a vtable written in C.
//
// While recording is on, it adds up the events that plug-ins report, by node and name.
#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define MAX_OPEN 256            // events in progress, of all threads
#define MAX_KINDS 1024
// Values of tflite::Profiler::EventType: those whose metadata is the index of a delegate's operator, and the first
// one that does not measure time.
enum { DELEGATE_OPERATOR = 4, DELEGATE_PROFILED_OPERATOR = 8, NO_TIME = 16 };

typedef struct open_event {
  int kind;                     // index in `events`, or -1: free
  uint64_t begin;
} open_event;

struct pl_profiler {
  void *const *methods;         // first, as C++ has it
  pthread_mutex_t mutex;        // plug-ins also report from their own threads
  const pl_node *node;          // the node that runs, or NULL
  bool recording;
  uint64_t begun;               // when recording began
  open_event open[MAX_OPEN];
  int num_events;
  pl_event events[MAX_KINDS];
};

static uint64_t clock_nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The index of the running node's event of this name, which may be new; -1 if it is not recorded.
static int find(pl_profiler *p, const char *tag, int type, int64_t index) {
  char name[PL_EVENT_NAME];
  if (!p->recording || p->node == NULL || tag == NULL) return -1;
  if (type == DELEGATE_OPERATOR || type == DELEGATE_PROFILED_OPERATOR) {
    snprintf(name, sizeof(name), "%.80s:%lld", tag, (long long)index);
  } else {
    snprintf(name, sizeof(name), "%.80s", tag);
  }
  for (int i = 0; i < p->num_events; i++) {
    if (p->events[i].node == p->node && strcmp(p->events[i].name, name) == 0) return i;
  }
  if (p->num_events == MAX_KINDS) return -1;
  pl_event *event = &p->events[p->num_events];
  memset(event, 0, sizeof(*event));
  event->node = p->node;
  memcpy(event->name, name, sizeof(name));
  return p->num_events++;
}

static void add(pl_event *event, uint64_t nanoseconds) {
  event->calls++;
  event->nanoseconds += nanoseconds;
}

// The virtual functions.  A handle is the index of an open event plus 1; 0 is none.

static void destroy(pl_profiler *p) { (void)p; }      // the host frees it

static uint32_t begin_event(pl_profiler *p, const char *tag, int type, int64_t first, int64_t second) {
  (void)second;
  uint32_t handle = 0;
  pthread_mutex_lock(&p->mutex);
  int kind = find(p, tag, type, first);
  for (uint32_t i = 0; kind >= 0 && handle == 0 && i < MAX_OPEN; i++) {
    if (p->open[i].kind >= 0) continue;
    p->open[i].kind = kind;
    handle = i + 1;
  }
  if (handle != 0) p->open[handle - 1].begin = clock_nanoseconds();
  pthread_mutex_unlock(&p->mutex);
  return handle;
}

static void end_event(pl_profiler *p, uint32_t handle) {
  uint64_t end = clock_nanoseconds();
  if (handle == 0 || handle > MAX_OPEN) return;
  pthread_mutex_lock(&p->mutex);
  open_event *event = &p->open[handle - 1];
  if (event->kind >= 0) add(&p->events[event->kind], end - event->begin);
  event->kind = -1;
  pthread_mutex_unlock(&p->mutex);
}

static void end_event_with_metadata(pl_profiler *p, uint32_t handle, int64_t first, int64_t second) {
  (void)first, (void)second;
  end_event(p, handle);
}

// An event of known duration.  In older versions of the interface the argument is the time of its beginning, so values
// longer than the recording are ignored.
static void add_event(pl_profiler *p, const char *tag, int type, uint64_t microseconds, int64_t first, int64_t second) {
  (void)second;
  pthread_mutex_lock(&p->mutex);
  if (type < NO_TIME && microseconds <= (clock_nanoseconds() - p->begun) / 1000) {
    int kind = find(p, tag, type, first);
    if (kind >= 0) add(&p->events[kind], microseconds * 1000);
  }
  pthread_mutex_unlock(&p->mutex);
}

static void add_event_with_data(pl_profiler *p, const char *tag, int type, const void *data) {
  (void)p, (void)tag, (void)type, (void)data;       // settings, which pylite does not use
}

// A C++ vtable: offset to the top of the object, type information, virtual functions in the order of their
// declarations, then placeholders for those of later versions.
static void *const methods[] = {NULL, NULL, (void *)destroy, (void *)destroy, (void *)begin_event,
                                (void *)end_event_with_metadata, (void *)end_event, (void *)add_event,
                                (void *)add_event_with_data, (void *)destroy, (void *)destroy, (void *)destroy};

pl_profiler *pl_profiler_new(void) {
  pl_profiler *p = calloc(1, sizeof(*p));
  if (p == NULL) return NULL;
  p->methods = methods + 2;
  pthread_mutex_init(&p->mutex, NULL);
  pl_profiler_record(p, false);
  return p;
}

void pl_profiler_free(pl_profiler *p) {
  if (p == NULL) return;
  pthread_mutex_destroy(&p->mutex);
  free(p);
}

void pl_profiler_record(pl_profiler *p, bool on) {
  pthread_mutex_lock(&p->mutex);
  p->recording = on;
  p->begun = clock_nanoseconds();
  for (int i = 0; i < MAX_OPEN; i++) p->open[i].kind = -1;        // drops events in progress
  pthread_mutex_unlock(&p->mutex);
}

void pl_profiler_running(pl_profiler *p, const pl_node *node) {
  pthread_mutex_lock(&p->mutex);
  p->node = node;
  pthread_mutex_unlock(&p->mutex);
}

int pl_profiler_events(pl_profiler *p, const pl_event **events) {
  *events = p->events;
  return p->num_events;
}

void pl_profiler_clear(pl_profiler *p) {
  pl_profiler_record(p, false);
  p->num_events = 0;
}
