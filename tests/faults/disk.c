/* Counts and records a program's calls on files below one folder, and makes one call fail. Linux, by LD_PRELOAD.

   FAULTS_FOLDER  the folder, as an absolute path without links
   FAULTS_AT      the number of the call that fails, from 1 on; 0: none
   FAULTS_ERRNO   its error number
   FAULTS_LASTS   no: only that call; room: also later calls that need space; all: all later calls
   FAULTS_AWAY    instead of an error: the folder is moved there at that call, once
   FAULTS_LOG     a line for each call: number, call, inode, device, offset, length, errno, path, other path; tabs between
   FAULTS_DATA    the written bytes of all writes in order; the length in a line is the number of its bytes
   FAULTS_CLOCK   8 bytes: offset of the wall clock in nanoseconds, read at each use of the clock  */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static char folder[PATH_MAX];
static const char *away;
static size_t folder_length;
static long at, count;
static int failure, log_file = -1, data_file = -1;
static enum { ALONE, ROOM, ALL } lasts;
static const volatile int64_t *wrong_by;

enum asks { NO_ROOM, SOME_ROOM };

static int raw_open(const char *path, int flags) {
    REAL(int, open64, const char *, int, ...);
    return real(path, flags | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FAULTS_FOLDER");
    if (text) {
        snprintf(folder, sizeof folder, "%s", text);
        folder_length = strlen(folder);
    }
    at = (text = getenv("FAULTS_AT")) ? atol(text) : 0;
    failure = (text = getenv("FAULTS_ERRNO")) ? atoi(text) : EIO;
    text = getenv("FAULTS_LASTS");
    lasts = !text ? ALONE : !strcmp(text, "room") ? ROOM : !strcmp(text, "all") ? ALL : ALONE;
    away = getenv("FAULTS_AWAY");
    if ((text = getenv("FAULTS_LOG"))) log_file = raw_open(text, O_WRONLY | O_CREAT | O_APPEND);
    if ((text = getenv("FAULTS_DATA"))) data_file = raw_open(text, O_WRONLY | O_CREAT | O_APPEND);
    if ((text = getenv("FAULTS_CLOCK"))) {
        int file = raw_open(text, O_RDONLY);
        void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (page == MAP_FAILED) abort();
        wrong_by = page;
        close(file);
    }
}

/* The absolute path; "" if there is none. */
static void locate(int base, const char *path, char *out) {
    char link[64];
    out[0] = 0;
    if (path && path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }
    if (base == AT_FDCWD) {
        if (!getcwd(out, PATH_MAX)) out[0] = 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", base);
        ssize_t length = readlink(link, out, PATH_MAX - 1);
        out[length < 0 ? 0 : length] = 0;
    }
    size_t length = strlen(out);
    if (path && path[0]) snprintf(out + length, PATH_MAX - length, "/%s", path);
}

static int is_below(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

/* Counts a call; returns 0 or its error number. The caller holds `turn`. */
static int counted(enum asks asks) {
    count++;
    if (!at || count < at) return 0;
    if (away) {
        if (count == at) {
            REAL(int, rename, const char *, const char *);
            real(folder, away);
        }
        return 0;
    }
    if (count == at || lasts == ALL || (lasts == ROOM && asks == SOME_ROOM)) return failure;
    return 0;
}

static void note(const char *call, const struct stat *what, long long offset, long long length, int error,
                 const char *path, const char *other) {
    char line[2 * PATH_MAX + 256];
    if (log_file < 0) return;
    int size = snprintf(line, sizeof line, "%ld\t%s\t%llu\t%llu\t%lld\t%lld\t%d\t%s\t%s\n", count, call,
                        what ? (unsigned long long)what->st_ino : 0, what ? (unsigned long long)what->st_dev : 0, offset,
                        length, error, path, other);
    REAL(ssize_t, write, int, const void *, size_t);
    if (real(log_file, line, size) != size) abort();
}

static void keep(const void *bytes, size_t length) {
    if (data_file < 0) return;
    REAL(ssize_t, write, int, const void *, size_t);
    if (real(data_file, bytes, length) != (ssize_t)length) abort();
}

/* A call on an open file: `run` is the real call, `result` is declared by the caller. */
#define ON_FILE(call, file, offset_, length_, asks, run, bytes) \
    char path[PATH_MAX]; \
    struct stat what; \
    if (!folder_length || fstat(file, &what)) return run; \
    locate(file, NULL, path); \
    if (!is_below(path)) return run; \
    pthread_mutex_lock(&turn); \
    int error = counted(asks); \
    long long offset = offset_; \
    __typeof__(run) result = -1; \
    if (!error) { \
        result = run; \
        error = result < 0 ? errno : 0; \
        if (bytes && result > 0) keep(bytes, result); \
    } \
    note(call, &what, offset, bytes ? (result < 0 ? 0 : (long long)result) : (long long)(length_), error, path, ""); \
    pthread_mutex_unlock(&turn); \
    if (error) errno = error; \
    return result

static long long place(int file) {
    int flags = fcntl(file, F_GETFL);
    struct stat what;
    if (flags >= 0 && flags & O_APPEND && !fstat(file, &what)) return what.st_size;
    return lseek64(file, 0, SEEK_CUR);
}

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(ssize_t, write, int, const void *, size_t);
    ON_FILE("write", file, place(file), length, SOME_ROOM, real(file, bytes, length), bytes);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t from) {
    REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
    ON_FILE("write", file, from, length, SOME_ROOM, real(file, bytes, length, from), bytes);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t from) { return pwrite64(file, bytes, length, from); }

/* Part by part, with the same result. */
ssize_t pwritev64(int file, const struct iovec *parts, int many, off64_t from) {
    ssize_t sum = 0;
    for (int i = 0; i < many; i++) {
        ssize_t one = pwrite64(file, parts[i].iov_base, parts[i].iov_len, from + sum);
        if (one < 0) return sum ? sum : one;
        sum += one;
        if ((size_t)one < parts[i].iov_len) break;
    }
    return sum;
}

ssize_t pwritev(int file, const struct iovec *parts, int many, off_t from) { return pwritev64(file, parts, many, from); }

ssize_t writev(int file, const struct iovec *parts, int many) {
    char path[PATH_MAX];
    REAL(ssize_t, writev, int, const struct iovec *, int);
    locate(file, NULL, path);
    if (!is_below(path)) return real(file, parts, many);
    ssize_t sum = 0;
    for (int i = 0; i < many; i++) {
        ssize_t one = write(file, parts[i].iov_base, parts[i].iov_len);
        if (one < 0) return sum ? sum : one;
        sum += one;
        if ((size_t)one < parts[i].iov_len) break;
    }
    return sum;
}

/* Refused: the program then reads and writes instead, and those calls are counted. */
ssize_t sendfile64(int out, int in, off64_t *from, size_t length) {
    char path[PATH_MAX];
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    locate(out, NULL, path);
    if (!is_below(path)) return real(out, in, from, length);
    errno = EINVAL;
    return -1;
}

ssize_t sendfile(int out, int in, off_t *from, size_t length) { return sendfile64(out, in, from, length); }

int fsync(int file) {
    REAL(int, fsync, int);
    ON_FILE("sync", file, 0, 0, NO_ROOM, real(file), (char *)NULL);
}

int fdatasync(int file) {
    REAL(int, fdatasync, int);
    ON_FILE("sync", file, 0, 0, NO_ROOM, real(file), (char *)NULL);
}

int ftruncate64(int file, off64_t length) {
    REAL(int, ftruncate64, int, off64_t);
    ON_FILE("truncate", file, 0, length, SOME_ROOM, real(file, length), (char *)NULL);
}

int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

int fallocate64(int file, int mode, off64_t from, off64_t length) {
    REAL(int, fallocate64, int, int, off64_t, off64_t);
    ON_FILE("allocate", file, from, length, mode ? NO_ROOM : SOME_ROOM, real(file, mode, from, length), (char *)NULL);
}

int fallocate(int file, int mode, off_t from, off_t length) { return fallocate64(file, mode, from, length); }

static int opened(int base, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat before, what;
    REAL(int, openat64, int, const char *, int, ...);
    if (!(flags & (O_CREAT | O_TRUNC))) return real(base, name, flags, mode);
    locate(base, name, path);
    if (!is_below(path)) return real(base, name, flags, mode);
    pthread_mutex_lock(&turn);
    int is_new = fstatat(base, name, &before, AT_SYMLINK_NOFOLLOW) != 0;
    int error = counted(SOME_ROOM);
    int file = -1;
    if (!error) {
        file = real(base, name, flags, mode);
        error = file < 0 ? errno : 0;
    }
    int is_known = file >= 0 && !fstat(file, &what);
    note(is_new ? "create" : flags & O_TRUNC ? "empty" : "open", is_known ? &what : NULL, 0, 0, error, path, "");
    pthread_mutex_unlock(&turn);
    if (error) errno = error;
    return file;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, int); \
        va_end(more); \
    }

int open64(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int open(const char *name, int flags, ...) { MODE(flags) return opened(AT_FDCWD, name, flags, mode); }
int openat64(int base, const char *name, int flags, ...) { MODE(flags) return opened(base, name, flags, mode); }
int openat(int base, const char *name, int flags, ...) { MODE(flags) return opened(base, name, flags, mode); }

/* A call on one name or two: the inode at the new name is recorded. */
#define ON_NAMES(call, base, name, has_other, other_base, other_name, asks, run) \
    char path[PATH_MAX], other[PATH_MAX] = ""; \
    struct stat what; \
    locate(base, name, path); \
    if (has_other) locate(other_base, other_name, other); \
    if (!is_below(path) && !is_below(other)) return run; \
    pthread_mutex_lock(&turn); \
    int error = counted(asks), result = -1; \
    if (!error) { \
        result = run; \
        error = result ? errno : 0; \
    } \
    const char *new_name = other[0] ? other : path; \
    note(call, lstat(new_name, &what) ? NULL : &what, 0, 0, error, path, other); \
    pthread_mutex_unlock(&turn); \
    if (error) errno = error; \
    return result

int renameat(int base, const char *name, int other_base, const char *other_name) {
    REAL(int, renameat, int, const char *, int, const char *);
    ON_NAMES("rename", base, name, 1, other_base, other_name, SOME_ROOM, real(base, name, other_base, other_name));
}

int rename(const char *name, const char *other_name) { return renameat(AT_FDCWD, name, AT_FDCWD, other_name); }

int renameat2(int base, const char *name, int other_base, const char *other_name, unsigned int flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned int);
    ON_NAMES(flags & 2 ? "exchange" : "rename", base, name, 1, other_base, other_name, SOME_ROOM,
             real(base, name, other_base, other_name, flags));
}

int link(const char *name, const char *other_name) {
    REAL(int, link, const char *, const char *);
    ON_NAMES("link", AT_FDCWD, name, 1, AT_FDCWD, other_name, SOME_ROOM, real(name, other_name));
}

int mkdirat(int base, const char *name, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    ON_NAMES("mkdir", base, name, 0, 0, "", SOME_ROOM, real(base, name, mode));
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int base, const char *name, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    ON_NAMES(flags & AT_REMOVEDIR ? "rmdir" : "unlink", base, name, 0, 0, "", NO_ROOM, real(base, name, flags));
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int remove(const char *name) {
    struct stat what;
    return unlinkat(AT_FDCWD, name, !lstat(name, &what) && S_ISDIR(what.st_mode) ? AT_REMOVEDIR : 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(int, clock_gettime, clockid_t, struct timespec *);
    int result = real(clock, now);
    if (!result && wrong_by && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = now->tv_nsec + *wrong_by % 1000000000;
        now->tv_sec += *wrong_by / 1000000000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
        now->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec moment;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &moment)) return -1;
    now->tv_sec = moment.tv_sec;
    now->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec moment;
    clock_gettime(CLOCK_REALTIME, &moment);
    if (out) *out = moment.tv_sec;
    return moment.tv_sec;
}
