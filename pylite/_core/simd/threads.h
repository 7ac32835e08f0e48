/* Threads that the library starts. */
#ifndef PYLITE_THREADS_H
#define PYLITE_THREADS_H
#include <pthread.h>

/* Starts a thread with a small stack that gets no signals; not 0 where that fails. */
int pl_start_thread(pthread_t *id, void *(*run)(void *), void *arg);
#endif
