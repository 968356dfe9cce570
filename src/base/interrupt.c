/*
 * interrupt - see the header. The handler only touches lock-free atomics and the clock,
 * which a handler may.
 */
#include "base/interrupt.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "base/error.h"

/* Signals that follow the first one sooner than this are the first one again. */
static const int64_t REPETITION_NS = 500000000;

/* Written by the handler, on whatever thread it runs. */
static _Atomic int requested;
static _Atomic int64_t requested_ns;

static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2,
              "a signal handler may use lock-free atomics only");

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The second signal is delivered again with its default action, once this returns. */
static void handle(int signal_number)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&requested, &none, signal_number)) {
        atomic_store(&requested_ns, now_ns());
        return;
    }
    if (now_ns() - atomic_load(&requested_ns) > REPETITION_NS) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
}

/* System calls go on after the handler: work ends where it polls, not in a read. */
static void catch_signal(int signal_number)
{
    struct sigaction before;
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) {
        return;
    }
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void interrupt_install(void)
{
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
}

void interrupt_ignore_broken_pipe(void)
{
    signal(SIGPIPE, SIG_IGN);
}

int interrupt_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}

const _Atomic int *interrupt_flag(void)
{
    return &requested;
}

const char *interrupt_name(void)
{
    switch (interrupt_requested()) {
    case SIGINT:
        return "SIGINT";
    case SIGTERM:
        return "SIGTERM";
    case 0:
        return "no signal";
    }
    return "a signal";
}

/* Ctrl-C is the user's wish and has a code of its own; SIGTERM leaves work undone. */
bool interrupt_check(struct error *err)
{
    const int signal_number = interrupt_requested();
    if (signal_number == 0) {
        return true;
    }
    return error_set(err, signal_number == SIGINT ? ERROR_INTERRUPTED : ERROR_CANCELLED,
                     "stopped by %s", interrupt_name());
}

/* A signal that comes now would be the second one, so its time is noted as well. */
void interrupt_note(int signal_number)
{
    atomic_store(&requested_ns, now_ns());
    atomic_store(&requested, signal_number);
}
