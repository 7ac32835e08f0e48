// context->profiler: an object of the C++ class tflite::Profiler, whose table of virtual functions is written down
// here.
//
// It adds up the events that plug-ins report while recording is on, by node and by name.
#include "host.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define MOST_OPEN 256           // events that have begun and not ended, of all threads
#define MOST_KINDS 1024
// The values of tflite::Profiler::EventType whose metadata is the number of an operator inside of a delegate, and the
// first one that is no time.
enum { DELEGATE_OPERATOR = 4, DELEGATE_PROFILED_OPERATOR = 8, NO_TIME = 16 };

typedef struct open_event {
  int kind;                     // index in `events`, or -1: free
  uint64_t begin;
} open_event;

struct pl_profiler {
  void *const *methods;         // first, as C++ has it
  pthread_mutex_t mutex;        // plug-ins report from their own threads, too
  const pl_node *node;          // that runs, or NULL
  bool recording;
  uint64_t begun;               // recording began
  open_event open[MOST_OPEN];
  int num_events;
  pl_event events[MOST_KINDS];
};

static uint64_t clock_nanoseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The index of the event of this name at the running node, which may be new; -1 where it is not recorded.
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
  if (p->num_events == MOST_KINDS) return -1;
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

// The methods.  A handle is the number of an open event; 0 is none.

static void destroy(pl_profiler *p) { (void)p; }      // the host frees it

static uint32_t begin_event(pl_profiler *p, const char *tag, int type, int64_t first, int64_t second) {
  (void)second;
  uint32_t handle = 0;
  pthread_mutex_lock(&p->mutex);
  int kind = find(p, tag, type, first);
  for (uint32_t i = 0; kind >= 0 && handle == 0 && i < MOST_OPEN; i++) {
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
  if (handle == 0 || handle > MOST_OPEN) return;
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

// An event of known time, in microseconds.  Longer ones than the recording are not times: before the argument was the
// time, it was that of the beginning.
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
  (void)p, (void)tag, (void)type, (void)data;       // settings, of which no program of pylite's makes use
}

// As C++ lays it out: the offset of the object, its type, the functions in the order of their declarations, and room
// for those of later versions.
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
  for (int i = 0; i < MOST_OPEN; i++) p->open[i].kind = -1;       // what has not ended is not counted
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
