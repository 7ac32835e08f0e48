/* Threads of the library's own. */
#ifndef PYLITE_THREADS_H
#define PYLITE_THREADS_H
#include <pthread.h>

/* Start a thread with a small stack that gets no signals; not 0 where there can be none. */
int pl_start_thread(pthread_t *id, void *(*run)(void *), void *arg);
#endif
