/* The metadata store in one SQLite file.
 *
 * Layout: table kv (key TEXT PRIMARY KEY, value TEXT as JSON, mod INTEGER), without rowid, so that it is ordered by the key's
 * bytes; table meta (name, value) with the rows schema (SCHEMA_VERSION) and revision (of the last commit that changed
 * something). PRAGMA application_id tells our file from others'.
 *
 * Crash argument: write-ahead journal with synchronous=FULL: every commit syncs the journal before it is acknowledged, and
 * checkpoints sync the journal before and the database after they write. A commit whose frames are incomplete or fail their
 * checksum is ignored as a whole when the file is opened. After an I/O error of a commit nothing is known about what the disk
 * holds: the store refuses all further writes until the process starts again.
 *
 * Threads: one connection behind a mutex, which a commit holds while it syncs. */
#include <sqlite3.h>
#include <string.h>

#include "base/assert.h"
#include "meta/store_backend.h"
#include "os/file.h"

#define SCHEMA_VERSION 1
#define APPLICATION_ID 0x4b61676d /* "Kagm" */
#define BUSY_TIMEOUT_MS 10000     /* an operator's sqlite3 shell may hold the file for a moment */

enum statement { GET, LIST, PUT, DELETE, DELETE_PREFIX, LIST_KEYS, SET_REVISION, BEGIN, COMMIT, ROLLBACK, STATEMENTS };

static const char *const statement_sql[STATEMENTS] = {
    [GET] = "SELECT value, mod FROM kv WHERE key = ?1",
    [LIST] = "SELECT key, value, mod FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key",
    [PUT] = "INSERT INTO kv (key, value, mod) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = ?2, mod = ?3",
    [DELETE] = "DELETE FROM kv WHERE key = ?1",
    [DELETE_PREFIX] = "DELETE FROM kv WHERE key >= ?1 AND key < ?2",
    [LIST_KEYS] = "SELECT key FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key",
    [SET_REVISION] = "UPDATE meta SET value = ?1 WHERE name = 'revision'",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
};

struct sqlite_store {
    struct meta_store store; /* first */
    struct mutex mutex;      /* the connection and all below */
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    char *path;
    int64_t revision;
    bool failed; /* an I/O error came in the way of a commit */
};

static enum error error_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return ERR_NO_SPACE;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERR_CORRUPT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERR_LOCKED;
    default:
        return ERR_IO;
    }
}

static enum error db_problem(struct sqlite_store *s, int rc, const char *doing, struct problem *problem)
{
    enum error error = problem_set(problem, error_of(rc), "Cannot %s the metadata store %s.", doing, s->path);
    problem_detail(problem, "SQLite says: %s (%d)", s->db != NULL ? sqlite3_errmsg(s->db) : sqlite3_errstr(rc), rc);
    if (error == ERR_NO_SPACE)
        problem_hint(problem, "Free space on its disk; what was refused can then be tried again.");
    else if (error == ERR_CORRUPT)
        problem_hint(problem,
                     "The file is damaged or is no metadata store: restore it from a backup; the logs beside it are untouched.");
    else if (error == ERR_LOCKED)
        problem_hint(problem, "Another process holds the file: close it.");
    else
        problem_hint(problem, "Look at the disk and the kernel's log, then start the broker again.");
    return error;
}

/* ---- Statements ---- */

static sqlite3_stmt *prepared(struct sqlite_store *s, enum statement which)
{
    return s->statements[which];
}

static void bind_text(sqlite3_stmt *stmt, int index, const char *text)
{
    int rc = sqlite3_bind_text(stmt, index, text, -1, SQLITE_STATIC);
    ASSERT(rc == SQLITE_OK);
}

static void reset(sqlite3_stmt *stmt)
{
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
}

/* One statement without rows. */
static int run(struct sqlite_store *s, enum statement which)
{
    sqlite3_stmt *stmt = prepared(s, which);
    int rc = sqlite3_step(stmt);
    ASSERT(rc != SQLITE_ROW);
    reset(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The first key behind all that begin with prefix: keys are UTF-8, in which no byte is 0xff. */
static void bind_prefix(sqlite3_stmt *stmt, const char *prefix, char end[META_KEY_MAX + 2])
{
    size_t len = strlen(prefix);
    ASSERT(len <= META_KEY_MAX);
    memcpy(end, prefix, len);
    memcpy(end + len, "\xff", 2);
    bind_text(stmt, 1, prefix);
    bind_text(stmt, 2, end);
}

static enum error parse_value(sqlite3_stmt *stmt, int column, json_t **ret_value)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    int len = sqlite3_column_bytes(stmt, column);
    json_t *value = text != NULL ? json_loadb(text, (size_t)len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    if (value == NULL)
        return ERR_CORRUPT;
    *ret_value = value;
    return OK;
}

/* ---- Reading ---- */

static enum error get_locked(struct sqlite_store *s, const char *key, json_t **ret_value, int64_t *ret_mod_revision)
{
    sqlite3_stmt *stmt = prepared(s, GET);
    bind_text(stmt, 1, key);
    int rc = sqlite3_step(stmt);
    enum error error = rc == SQLITE_DONE ? ERR_NOT_FOUND : OK;
    if (rc == SQLITE_ROW) {
        error = ret_value != NULL ? parse_value(stmt, 0, ret_value) : OK;
        if (error == OK)
            *ret_mod_revision = sqlite3_column_int64(stmt, 1);
    } else if (rc != SQLITE_DONE) {
        error = error_of(rc);
    }
    reset(stmt);
    return error;
}

static enum error sqlite_get(struct meta_store *store, const char *key, json_t **ret_value, int64_t *ret_mod_revision)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    mutex_lock(&s->mutex);
    enum error error = get_locked(s, key, ret_value, ret_mod_revision);
    mutex_unlock(&s->mutex);
    return error;
}

static enum error sqlite_list(struct meta_store *store, const char *prefix,
                              enum error (*visit)(void *arg, const char *key, json_t *value, int64_t mod_revision), void *arg)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    char end[META_KEY_MAX + 2];
    enum error error = OK;
    int rc;
    mutex_lock(&s->mutex);
    sqlite3_stmt *stmt = prepared(s, LIST);
    bind_prefix(stmt, prefix, end);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        json_t *value;
        error = parse_value(stmt, 1, &value);
        if (error != OK)
            break;
        error = visit(arg, (const char *)sqlite3_column_text(stmt, 0), value, sqlite3_column_int64(stmt, 2));
        json_decref(value);
        if (error != OK)
            break;
    }
    reset(stmt);
    mutex_unlock(&s->mutex);
    return error != OK || rc == SQLITE_DONE ? error : error_of(rc);
}

static int64_t sqlite_revision(struct meta_store *store)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    mutex_lock(&s->mutex);
    int64_t revision = s->revision;
    mutex_unlock(&s->mutex);
    return revision;
}

/* ---- Committing ---- */

static enum error check(struct sqlite_store *s, const struct meta_op *op, struct problem *problem)
{
    int64_t mod = 0;
    enum error error = get_locked(s, op->key, NULL, &mod);
    if (error != OK && error != ERR_NOT_FOUND)
        return problem_set(problem, error, "Cannot read %s in the metadata store %s.", op->key, s->path);
    if (op->mod_revision == META_PRESENT ? mod != 0 : mod == op->mod_revision)
        return OK;
    return problem_set(problem, ERR_CONFLICT,
                       mod == 0                ? "The metadata entry %s is not there any more."
                       : op->mod_revision == 0 ? "The metadata entry %s exists already."
                                               : "The metadata entry %s was changed by somebody else.",
                       op->key);
}

static int put(struct sqlite_store *s, const struct meta_op *op, int64_t revision, struct meta_events *events)
{
    char *text = json_dumps(op->value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    ASSERT(text != NULL && strlen(text) <= META_VALUE_MAX);
    sqlite3_stmt *stmt = prepared(s, PUT);
    bind_text(stmt, 1, op->key);
    bind_text(stmt, 2, text);
    sqlite3_bind_int64(stmt, 3, revision);
    int rc = run(s, PUT);
    free(text);
    if (rc == SQLITE_OK)
        meta_events_add(events, op->key, op->value, revision);
    return rc;
}

static int delete_key(struct sqlite_store *s, const char *key, int64_t revision, struct meta_events *events)
{
    bind_text(prepared(s, DELETE), 1, key);
    int rc = run(s, DELETE);
    if (rc == SQLITE_OK && sqlite3_changes(s->db) > 0)
        meta_events_add(events, key, NULL, revision);
    return rc;
}

static int delete_prefix(struct sqlite_store *s, const char *prefix, int64_t revision, struct meta_events *events)
{
    char end[META_KEY_MAX + 2];
    sqlite3_stmt *keys = prepared(s, LIST_KEYS);
    bind_prefix(keys, prefix, end);
    int rc;
    while ((rc = sqlite3_step(keys)) == SQLITE_ROW)
        meta_events_add(events, (const char *)sqlite3_column_text(keys, 0), NULL, revision);
    reset(keys);
    if (rc != SQLITE_DONE)
        return rc;
    bind_prefix(prepared(s, DELETE_PREFIX), prefix, end);
    return run(s, DELETE_PREFIX);
}

static int apply(struct sqlite_store *s, const struct meta_txn *txn, int64_t revision, struct meta_events *events)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < txn->count && rc == SQLITE_OK; i++) {
        const struct meta_op *op = &txn->ops[i];
        switch (op->kind) {
        case META_CHECK:
            break;
        case META_PUT:
            rc = put(s, op, revision, events);
            break;
        case META_DELETE:
            rc = delete_key(s, op->key, revision, events);
            break;
        case META_DELETE_PREFIX:
            rc = delete_prefix(s, op->key, revision, events);
            break;
        }
    }
    if (rc != SQLITE_OK || events->count == 0)
        return rc;
    sqlite3_bind_int64(prepared(s, SET_REVISION), 1, revision);
    return run(s, SET_REVISION);
}

static enum error commit_locked(struct sqlite_store *s, const struct meta_txn *txn, struct meta_events *events,
                                int64_t *ret_revision, struct problem *problem)
{
    if (s->failed) {
        problem_set(problem, ERR_IO, "The metadata store %s takes no writes after an error of its disk.", s->path);
        problem_hint(problem, "Look at the disk and the kernel's log, then start the broker again.");
        return ERR_IO;
    }
    int rc = run(s, BEGIN);
    if (rc != SQLITE_OK)
        return db_problem(s, rc, "write to", problem);
    enum error error = OK;
    for (int i = 0; i < txn->count && error == OK; i++) {
        ASSERT(strlen(txn->ops[i].key) <= META_KEY_MAX);
        if (txn->ops[i].kind == META_CHECK)
            error = check(s, &txn->ops[i], problem);
    }
    int64_t revision = s->revision + 1;
    if (error == OK) {
        rc = apply(s, txn, revision, events);
        if (rc == SQLITE_OK)
            rc = run(s, COMMIT);
        if (rc != SQLITE_OK)
            error = db_problem(s, rc, "write to", problem);
    }
    if (error == OK) {
        if (events->count > 0)
            s->revision = revision;
        *ret_revision = s->revision;
        return OK;
    }
    if (!sqlite3_get_autocommit(s->db))
        (void)run(s, ROLLBACK);
    s->failed = error == ERR_IO || error == ERR_CORRUPT;
    return error;
}

static enum error sqlite_commit(struct meta_store *store, const struct meta_txn *txn, struct meta_events *events,
                                int64_t *ret_revision, struct problem *problem)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    mutex_lock(&s->mutex);
    enum error error = commit_locked(s, txn, events, ret_revision, problem);
    mutex_unlock(&s->mutex);
    return error;
}

/* ---- Opening ---- */

static void sqlite_close(struct meta_store *store)
{
    struct sqlite_store *s = (struct sqlite_store *)store;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->statements[i]);
    int rc = sqlite3_close(s->db);
    ASSERT(rc == SQLITE_OK);
    meta_store_fini(store);
    mutex_fini(&s->mutex);
    mem_free(s->path);
    mem_free(s);
}

static const struct meta_store_ops sqlite_ops = {
    .close = sqlite_close,
    .get = sqlite_get,
    .list = sqlite_list,
    .revision = sqlite_revision,
    .commit = sqlite_commit,
};

static int query_number(sqlite3 *db, const char *sql, int64_t *ret_number)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(stmt, 0);
        rc = SQLITE_OK;
    } else if (rc == SQLITE_DONE) {
        rc = SQLITE_CORRUPT; /* the row must be there */
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* PRAGMA quick_check gives the one row "ok" for a sound file. */
static int check_soundness(sqlite3 *db)
{
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        rc = strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0 ? SQLITE_OK : SQLITE_CORRUPT;
    sqlite3_finalize(stmt);
    return rc;
}

static int create_schema(sqlite3 *db)
{
    char sql[512];
    snprintf(sql, sizeof(sql),
             "BEGIN IMMEDIATE;"
             "CREATE TABLE kv (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL, mod INTEGER NOT NULL) WITHOUT ROWID;"
             "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;"
             "INSERT INTO meta VALUES ('schema', %d), ('revision', 0);"
             "PRAGMA application_id = %d;"
             "COMMIT;",
             SCHEMA_VERSION, APPLICATION_ID);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static enum error check_version(struct sqlite_store *s, struct problem *problem)
{
    int64_t application = 0, tables = 0, schema = 0;
    int rc = query_number(s->db, "PRAGMA application_id", &application);
    if (rc == SQLITE_OK)
        rc = query_number(s->db, "SELECT count(*) FROM sqlite_master", &tables);
    if (rc == SQLITE_OK && tables == 0) {
        rc = create_schema(s->db);
        application = APPLICATION_ID;
    }
    if (rc != SQLITE_OK)
        return db_problem(s, rc, "open", problem);
    if (application != APPLICATION_ID) {
        problem_set(problem, ERR_CORRUPT, "%s is an SQLite file, but no metadata store of Kagami.", s->path);
        problem_hint(problem, "Start with another data folder, or restore the file from a backup.");
        return ERR_CORRUPT;
    }
    rc = query_number(s->db, "SELECT value FROM meta WHERE name = 'schema'", &schema);
    if (rc == SQLITE_OK)
        rc = query_number(s->db, "SELECT value FROM meta WHERE name = 'revision'", &s->revision);
    if (rc != SQLITE_OK)
        return db_problem(s, rc, "open", problem);
    if (schema > SCHEMA_VERSION) {
        problem_set(problem, ERR_UNSUPPORTED, "The metadata store %s was written by a newer version of Kagami.", s->path);
        problem_detail(problem, "its schema is %lld, this version knows up to %d", (long long)schema, SCHEMA_VERSION);
        problem_hint(problem, "Start the newer version; going back is possible only to a backup.");
        return ERR_UNSUPPORTED;
    }
    return OK;
}

/* A new file must outlive a power loss as its first commit does. */
static enum error sync_folder(struct sqlite_store *s, struct problem *problem)
{
    char *folder = mem_strdup(s->path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
    enum error error = fs_sync_dir(fs_system(), slash != NULL ? folder : ".");
    if (error != OK)
        problem_set(problem, error, "Cannot sync the folder of the metadata store %s.", s->path);
    mem_free(folder);
    return error;
}

/* What an unclean end left in the journal goes to the database and its disk, by writing it once more: a sync of the journal may have failed, and the page cache shows what the medium never got,
 * in whose place a later power cut would bring back something older. A full disk may have no room for it, and a shell that reads the file be in its way: neither keeps us from starting. */
static int settle_journal(sqlite3 *db)
{
    int rc = sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc == SQLITE_FULL || rc == SQLITE_BUSY ? SQLITE_OK : rc;
}

static enum error open_db(struct sqlite_store *s, struct problem *problem)
{
    int rc = sqlite3_open_v2(s->path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(s->db, BUSY_TIMEOUT_MS);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;", NULL, NULL,
                          NULL);
    if (rc == SQLITE_OK)
        rc = settle_journal(s->db);
    if (rc == SQLITE_OK)
        rc = check_soundness(s->db);
    if (rc != SQLITE_OK)
        return db_problem(s, rc, "open", problem);
    enum error error = check_version(s, problem);
    if (error != OK)
        return error;
    for (int i = 0; i < STATEMENTS && rc == SQLITE_OK; i++)
        rc = sqlite3_prepare_v3(s->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[i], NULL);
    return rc == SQLITE_OK ? sync_folder(s, problem) : db_problem(s, rc, "open", problem);
}

enum error meta_store_open_sqlite(const char *path, struct meta_store **ret_store, struct problem *problem)
{
    struct sqlite_store *s = mem_calloc(1, sizeof(*s));
    meta_store_init(&s->store, &sqlite_ops);
    mutex_init(&s->mutex);
    s->path = mem_strdup(path);
    enum error error = open_db(s, problem);
    if (error != OK) {
        sqlite_close(&s->store);
        return error;
    }
    *ret_store = &s->store;
    return OK;
}
