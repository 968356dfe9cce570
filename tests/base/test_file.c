/*
 * Whole or not at all; messages with the path.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"

static char folder[64]; /* a fresh one for each test */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_file-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    struct error err;
    return file_remove_tree(folder, &err) ? 0 : -1;
}

/* The path of `name` in the folder; valid until the next call but three. */
static const char *inside(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int count_entries(void)
{
    DIR *entries = opendir(folder);
    int n = 0;
    while (readdir(entries) != NULL) {
        n++;
    }
    closedir(entries);
    return n - 2; /* "." and ".." */
}

static void assert_content(const char *path, const void *bytes, size_t length)
{
    struct error err;
    size_t found_length = 0;
    char *found = file_read(path, SIZE_MAX - 1, &found_length, &err);
    assert_non_null(found);
    assert_int_equal(found_length, length);
    assert_memory_equal(found, bytes, length);
    assert_int_equal(found[length], '\0');
    mem_free(found);
}

/* G1 */
static void written_whole_and_replaced(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_write_atomic(inside("f"), "one", 3, &err));
    assert_content(inside("f"), "one", 3);
    assert_true(file_write_atomic(inside("f"), "", 0, &err));
    assert_content(inside("f"), "", 0);
    assert_int_equal(count_entries(), 1);
}

static void writer_buffers_small_and_passes_large(void **state)
{
    (void)state;
    struct error err;
    const size_t n = 3 << 20;
    unsigned char *bytes = mem_alloc(n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    }
    struct file_writer *writer = file_writer_open(inside("big"), &err);
    assert_non_null(writer);
    assert_false(file_exists(inside("big")));
    size_t at = 0;
    size_t piece = 1;
    while (at < n) {
        const size_t now = piece < n - at ? piece : n - at;
        assert_true(file_writer_add(writer, bytes + at, now, &err));
        at += now;
        piece = piece * 3 % 1000003;
    }
    assert_false(file_exists(inside("big")));
    assert_true(file_writer_commit(writer, &err));
    assert_content(inside("big"), bytes, n);

    assert_true(file_copy(inside("big"), inside("copy"), &err));
    assert_content(inside("copy"), bytes, n);
    assert_int_equal(count_entries(), 2);
    mem_free(bytes);
}

static void aborted_writer_leaves_nothing(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_write_atomic(inside("f"), "old", 3, &err));
    struct file_writer *writer = file_writer_open(inside("f"), &err);
    assert_non_null(writer);
    assert_true(file_writer_add(writer, "new", 3, &err));
    assert_int_equal(count_entries(), 2);
    file_writer_abort(writer);
    file_writer_abort(NULL);
    assert_int_equal(count_entries(), 1);
    assert_content(inside("f"), "old", 3);
}

/* The place is a folder, so the rename fails: the temporary file must go. */
static void failed_commit_leaves_nothing(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_make_folders(inside("taken/x"), &err));
    assert_false(file_write_atomic(inside("taken"), "abc", 3, &err));
    assert_non_null(strstr(err.message, inside("taken")));
    assert_int_equal(count_entries(), 1);
}

/* C33: the write fails half-way; the old file stays, nothing else is left. */
static void failed_write_keeps_the_old_file(void **state)
{
    (void)state;
    struct error err;
    assert_true(file_write_atomic(inside("f"), "old", 3, &err));
    const size_t n = 2 << 20;
    char *bytes = mem_alloc(n);
    struct rlimit kept;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    const struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = kept.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const bool done = file_write_atomic(inside("f"), bytes, n, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &kept), 0);
    mem_free(bytes);
    assert_false(done);
    assert_non_null(strstr(err.message, "cannot be written"));
    assert_content(inside("f"), "old", 3);
    assert_int_equal(count_entries(), 1);
}

static void missing_folder_is_named(void **state)
{
    (void)state;
    struct error err;
    assert_false(file_write_atomic(inside("none/f"), "x", 1, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_non_null(strstr(err.message, "none/f"));
}

static void two_writers_of_one_file(void **state)
{
    (void)state;
    struct error err;
    struct file_writer *a = file_writer_open(inside("f"), &err);
    struct file_writer *b = file_writer_open(inside("f"), &err);
    assert_non_null(a);
    assert_non_null(b);
    assert_true(file_writer_add(a, "aaa", 3, &err));
    assert_true(file_writer_add(b, "bb", 2, &err));
    assert_true(file_writer_commit(a, &err));
    assert_content(inside("f"), "aaa", 3);
    assert_true(file_writer_commit(b, &err));
    assert_content(inside("f"), "bb", 2);
}

static void read_refuses_too_much_and_the_wrong_kind(void **state)
{
    (void)state;
    struct error err;
    size_t length;
    assert_true(file_write_atomic(inside("f"), "12345", 5, &err));
    assert_null(file_read(inside("f"), 4, &length, &err));
    assert_int_equal(err.kind, ERROR_DATA);
    assert_non_null(strstr(err.message, "5 bytes"));
    assert_null(file_read(folder, 100, &length, &err));
    assert_non_null(strstr(err.message, folder));
    assert_null(file_read(inside("none"), 100, &length, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void maps(void **state)
{
    (void)state;
    struct error err;
    struct file_map map;
    assert_true(file_write_atomic(inside("f"), "12345", 5, &err));
    assert_true(file_map_open(&map, inside("f"), &err));
    assert_int_equal(map.length, 5);
    assert_memory_equal(map.bytes, "12345", 5);
    file_map_drop(&map, 0, 5);
    file_map_drop(&map, 5, 0);
    assert_memory_equal(map.bytes, "12345", 5);
    file_map_close(&map);
    file_map_close(&map);

    assert_true(file_write_atomic(inside("empty"), "", 0, &err));
    assert_true(file_map_open(&map, inside("empty"), &err));
    assert_null(map.bytes);
    assert_int_equal(map.length, 0);
    file_map_close(&map);

    assert_false(file_map_open(&map, inside("none"), &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_false(file_map_open(&map, folder, &err));
}

/* Dropped pages come back from the file with the same content. */
static void dropped_pages_come_back(void **state)
{
    (void)state;
    struct error err;
    struct file_map map;
    const size_t n = 100000;
    unsigned char *bytes = mem_alloc(n);
    memset(bytes, 7, n);
    assert_true(file_write_atomic(inside("f"), bytes, n, &err));
    assert_true(file_map_open(&map, inside("f"), &err));
    assert_memory_equal(map.bytes, bytes, n);
    file_map_drop(&map, 1, n - 2);
    assert_memory_equal(map.bytes, bytes, n);
    file_map_close(&map);
    mem_free(bytes);
}

static void a_pipe_is_refused_at_once(void **state)
{
    (void)state;
    struct error err;
    char path[] = "/tmp/lathe-test-pipe-XXXXXX";
    assert_non_null(mkdtemp(path));
    char *pipe_path = file_join(path, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_null(file_read(pipe_path, 100, NULL, &err));
    assert_non_null(strstr(err.message, "is not a regular file"));
    mem_free(pipe_path);
    assert_true(file_remove_tree(path, &err));
}

static void read_in_pieces(void **state)
{
    (void)state;
    struct error err = {.message = ""};
    char path[] = "/tmp/lathe-test-reader-XXXXXX";
    char bytes[8];
    size_t n;
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, "abcdefghij", 10), 10);
    close(fd);
    struct file_reader *reader = file_reader_open(path, &err);
    assert_non_null(reader);
    assert_int_equal(file_reader_bytes(reader), 10);
    assert_true(file_reader_read(reader, bytes, 7, &n, &err));
    assert_int_equal(n, 7);
    assert_memory_equal(bytes, "abcdefg", 7);
    assert_true(file_reader_read(reader, bytes, 7, &n, &err));
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "hij", 3);
    assert_true(file_reader_read(reader, bytes, 7, &n, &err));
    assert_int_equal(n, 0);
    file_reader_close(reader);
    file_reader_close(NULL);
    unlink(path);
    assert_null(file_reader_open(path, &err));
    assert_null(file_reader_open("/tmp", &err));
}

/* A link is followed and stays, also one that leads nowhere yet; in a ring it is told. */
static void links_are_followed(void **state)
{
    (void)state;
    struct error err;
    struct stat info;
    assert_int_equal(mkdir(inside("below"), 0777), 0);
    assert_true(file_write_atomic(inside("below/real"), "old", 3, &err));
    assert_int_equal(symlink("below/real", inside("one")), 0);
    assert_int_equal(symlink("one", inside("two")), 0);
    assert_int_equal(symlink("below/later", inside("early")), 0);
    assert_true(file_write_atomic(inside("two"), "new", 3, &err));
    assert_true(file_write_atomic(inside("early"), "new", 3, &err));
    static const char *const files[] = {"below/real", "below/later"};
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        assert_int_equal(lstat(inside(files[i]), &info), 0);
        assert_true(S_ISREG(info.st_mode));
        char *text = file_read(inside(files[i]), 100, NULL, &err);
        assert_string_equal(text, "new");
        mem_free(text);
    }
    static const char *const links[] = {"one", "two", "early"};
    for (size_t i = 0; i < ARRAY_LENGTH(links); i++) {
        assert_int_equal(lstat(inside(links[i]), &info), 0);
        assert_true(S_ISLNK(info.st_mode));
    }
    assert_int_equal(symlink("ring", inside("ring")), 0);
    assert_false(file_write_atomic(inside("ring"), "new", 3, &err));
    assert_non_null(strstr(err.message, "ring: cannot be written"));
    assert_int_equal(count_entries(), 5);
}

/* A pipe gets the bytes and stays a pipe, under its name and under one that the system has
 * for an open file; nothing is left beside it. */
static void a_pipe_is_written_into(void **state)
{
    (void)state;
    struct error err;
    struct stat info;
    char got[8] = {0};
    assert_int_equal(mkfifo(inside("pipe"), 0666), 0);
    const int fd = open(inside("pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_true(file_write_atomic(inside("pipe"), "abc", 3, &err));
    assert_int_equal(read(fd, got, sizeof(got)), 3);
    assert_memory_equal(got, "abc", 3);
    struct file_writer *writer = file_writer_open(inside("pipe"), &err);
    assert_non_null(writer);
    file_writer_abort(writer);
    assert_int_equal(lstat(inside("pipe"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(count_entries(), 1);
    close(fd);
}

/* As with "> out" and /dev/stdout: what stands in the file already is not lost. */
static void an_open_file_is_added_to(void **state)
{
    (void)state;
    struct error err;
    char name[64];
    assert_true(file_write_atomic(inside("out"), "before ", 7, &err));
    const int fd = open(inside("out"), O_RDWR);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    assert_true(file_write_atomic(name, "after", 5, &err));
    close(fd);
    char *text = file_read(inside("out"), 100, NULL, &err);
    assert_string_equal(text, "before after");
    mem_free(text);
    assert_int_equal(count_entries(), 1);
}

/* A folder is refused before the work, not by the rename behind it. */
static void a_folder_is_no_file_to_write(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(mkdir(inside("below"), 0777), 0);
    assert_null(file_writer_open(inside("below"), &err));
    assert_non_null(strstr(err.message, "below: cannot be created: it is a folder"));
    assert_int_equal(count_entries(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(links_are_followed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_pipe_is_written_into, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(an_open_file_is_added_to, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_folder_is_no_file_to_write, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(written_whole_and_replaced, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(writer_buffers_small_and_passes_large,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(aborted_writer_leaves_nothing, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(failed_commit_leaves_nothing, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(failed_write_keeps_the_old_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(missing_folder_is_named, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(two_writers_of_one_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(read_refuses_too_much_and_the_wrong_kind,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(maps, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(dropped_pages_come_back, make_folder,
                                        remove_folder),
        cmocka_unit_test(a_pipe_is_refused_at_once),
        cmocka_unit_test(read_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
