/* Preloaded into a process under test: kills it at a chosen call that changes a file, or lets
 * chosen calls fail. fault_kill() and fault_fail() are called through ctypes.
 * With FAULT_TRACE set, writes, syncs, renames and removals are recorded for a power failure. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static long left = -1;               /* calls until the kill; negative: never */
static int moment = 0;               /* 0 before, 1 within, 2 after the call */
enum { OPEN = 1, WRITE = 2, READ = 4, SYNC = 8, RENAME = 16, UNLINK = 32, LOCK = 64, MAP = 128 };
static int fail_kinds = 0;           /* calls that fail */
static int fail_errno = 0;
static long fail_left = 0;           /* how many of them; negative: all */
static int trace = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fault_kill(long calls, int when) { left = calls; moment = when; }
void fault_fail(int kinds, int code, long calls) { fail_errno = code; fail_left = calls; fail_kinds = kinds; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
static int due(void) { return left > 0 && __sync_sub_and_fetch(&left, 1) == 0; }

/* The name of a file under test, or NULL: only files of the data folder count. */
static const char *named(int fd, char *buffer, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, buffer, size - 1);
    if (n <= 0) return NULL;
    buffer[n] = 0;
    const char *folder = getenv("FAULT_FOLDER");
    return folder && strncmp(buffer, folder, strlen(folder)) == 0 ? buffer : NULL;
}

static int counted(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

/* Whether a call of a kind on a file under test is to fail; sets errno. */
static int failing(int kind, int fd, const char *path) {
    char buffer[4096];
    if (!(fail_kinds & kind) || !(path ? counted(path) : named(fd, buffer, sizeof buffer) != NULL)) return 0;
    if (fail_left == 0 || (fail_left > 0 && __sync_fetch_and_sub(&fail_left, 1) <= 0)) return 0;
    errno = fail_errno;
    return 1;
}

static void record(const char *kind, const char *path, const char *other, off_t at, const void *data, size_t n) {
    if (!getenv("FAULT_TRACE")) return;
    pthread_mutex_lock(&lock);
    if (trace < 0) trace = REAL(open)(getenv("FAULT_TRACE"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    char head[9000];
    int size = snprintf(head, sizeof head, "%s\t%s\t%s\t%lld\t%zu\n", kind, path, other ? other : "", (long long)at, n);
    if (REAL(write)(trace, head, size) != size || (n && data && REAL(write)(trace, data, n) != (ssize_t)n)) abort();
    pthread_mutex_unlock(&lock);
}

static ssize_t writing(int fd, const void *data, size_t n, off_t at, int positioned) {
    char buffer[4096];
    const char *path = named(fd, buffer, sizeof buffer);
    if (!path) return positioned ? REAL(pwrite)(fd, data, n, at) : REAL(write)(fd, data, n);
    if (failing(WRITE, fd, NULL)) return -1;
    int kills = due();
    if (kills && moment == 0) die();
    size_t some = kills && moment == 1 ? n / 2 : n;
    if (!positioned) at = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    ssize_t written = positioned ? REAL(pwrite)(fd, data, some, at) : REAL(write)(fd, data, some);
    if (written > 0) record("write", path, NULL, at, data, (size_t)written);
    if (kills) die();
    return written;
}

ssize_t write(int fd, const void *data, size_t n) { return writing(fd, data, n, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return writing(fd, data, n, at, 1); }
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at) { return writing(fd, data, n, at, 1); }

#define AROUND(call, kind, path, other, at) do { \
    int kills = due(); \
    if (kills && moment == 0) die(); \
    int result = (call); \
    if (result == 0) record(kind, path, other, at, NULL, 0); \
    if (kills) die(); \
    return result; } while (0)

static int syncing(int fd, int (*real)(int)) {
    char buffer[4096];
    const char *path = named(fd, buffer, sizeof buffer);
    if (!path) return real(fd);
    if (failing(SYNC, fd, NULL)) return -1;
    AROUND(real(fd), "sync", path, NULL, 0);
}
int fsync(int fd) { return syncing(fd, REAL(fsync)); }
int fdatasync(int fd) { return syncing(fd, REAL(fdatasync)); }

static int cutting(int fd, off_t size) {
    char buffer[4096];
    const char *path = named(fd, buffer, sizeof buffer);
    if (!path) return REAL(ftruncate)(fd, size);
    if (failing(WRITE, fd, NULL)) return -1;
    AROUND(REAL(ftruncate)(fd, size), "cut", path, NULL, size);
}
int ftruncate(int fd, off_t size) { return cutting(fd, size); }
int ftruncate64(int fd, off64_t size) { return cutting(fd, size); }

int unlink(const char *path) {
    if (!counted(path)) return REAL(unlink)(path);
    if (failing(UNLINK, -1, path)) return -1;
    AROUND(REAL(unlink)(path), "remove", path, NULL, 0);
}
int rename(const char *from, const char *to) {
    if (!counted(to)) return REAL(rename)(from, to);
    if (failing(RENAME, -1, to)) return -1;
    AROUND(REAL(rename)(from, to), "rename", from, to, 0);
}

/* Calls that change nothing: they only fail. */

static int opening(const char *path, int flags, mode_t mode) {
    return failing(OPEN, -1, path) ? -1 : REAL(open)(path, flags, mode);
}
#define OPENING(name) int name(const char *path, int flags, ...) { \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    return opening(path, flags, mode); }
OPENING(open)
OPENING(open64)

ssize_t read(int fd, void *data, size_t n) { return failing(READ, fd, NULL) ? -1 : REAL(read)(fd, data, n); }
ssize_t pread64(int fd, void *data, size_t n, off64_t at) {
    return failing(READ, fd, NULL) ? -1 : REAL(pread64)(fd, data, n, at);
}

int flock(int fd, int what) { return failing(LOCK, fd, NULL) ? -1 : REAL(flock)(fd, what); }
#define LOCKING(name) int name(int fd, int what, ...) { \
    va_list more; \
    va_start(more, what); \
    void *given = va_arg(more, void *); \
    va_end(more); \
    if ((what == F_SETLK || what == F_SETLKW) && failing(LOCK, fd, NULL)) return -1; \
    return REAL(fcntl)(fd, what, given); }
LOCKING(fcntl)
LOCKING(fcntl64)

#define MAPPING(name, offset) void *name(void *at, size_t n, int access, int flags, int fd, offset from) { \
    if (fd >= 0 && failing(MAP, fd, NULL)) return MAP_FAILED; \
    return REAL(mmap64)(at, n, access, flags, fd, from); }
MAPPING(mmap, off_t)
MAPPING(mmap64, off64_t)
