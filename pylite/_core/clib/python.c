// Access to Python: to the one that runs in the process; else this file starts one.
//
// This library is not linked to Python, so that one file serves all versions: it looks up Python's functions by name.
// Begin at pl_gil_take().
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clib.h"

// The functions and objects of Python that this library uses; `functions` has their names.
static struct {
  int (*is_initialized)(void);
  void (*initialize)(int);
  wchar_t *(*decode)(const char *, size_t *);
  void (*set_name)(const wchar_t *);
  int (*ensure)(void);
  void (*release)(int);
  void *(*save_thread)(void);
  PyObject *(*import)(const char *);
  PyObject *(*get_attribute)(PyObject *, const char *);
  PyObject *(*call)(PyObject *, PyObject *);
  PyObject *(*call_method)(PyObject *, const char *, const char *, ...);
  PyObject *(*build)(const char *, va_list);
  long long (*as_number)(PyObject *);
  PyObject *(*text)(const char *);
  PyObject *(*to_text)(PyObject *);
  PyObject *(*encode)(PyObject *, const char *, const char *);
  const char *(*bytes)(PyObject *);
  int (*insert)(PyObject *, ptrdiff_t, PyObject *);
  PyObject *(*system)(const char *);
  void (*drop)(PyObject *);
  void (*fetch)(PyObject **, PyObject **, PyObject **);
  void (*normalize)(PyObject **, PyObject **, PyObject **);
  int (*matches)(PyObject *, PyObject *);
  void (*clear)(void);
  void (*interrupt)(void);
  PyObject **keyboard_interrupt;
  PyObject *none;
} py;

static const struct {
  const char *name;
  void *slot;
} functions[] = {
  {"Py_IsInitialized", &py.is_initialized}, {"Py_InitializeEx", &py.initialize},
  {"Py_DecodeLocale", &py.decode}, {"Py_SetProgramName", &py.set_name},
  {"PyGILState_Ensure", &py.ensure}, {"PyGILState_Release", &py.release}, {"PyEval_SaveThread", &py.save_thread},
  {"PyImport_ImportModule", &py.import}, {"PyObject_GetAttrString", &py.get_attribute},
  {"PyObject_CallObject", &py.call}, {"PyObject_CallMethod", &py.call_method}, {"Py_VaBuildValue", &py.build},
  {"PyLong_AsLongLong", &py.as_number}, {"PyUnicode_FromString", &py.text}, {"PyObject_Str", &py.to_text},
  {"PyUnicode_AsEncodedString", &py.encode}, {"PyBytes_AsString", &py.bytes}, {"PyList_Insert", &py.insert},
  {"PySys_GetObject", &py.system}, {"Py_DecRef", &py.drop}, {"PyErr_Fetch", &py.fetch},
  {"PyErr_NormalizeException", &py.normalize}, {"PyErr_GivenExceptionMatches", &py.matches}, {"PyErr_Clear", &py.clear},
  {"PyErr_SetInterrupt", &py.interrupt}, {"PyExc_KeyboardInterrupt", &py.keyboard_interrupt},
  {"_Py_NoneStruct", &py.none}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;      // held while Python is found and started
static PyObject *module;        // pylite.clib; set once

void pl_report(const pl_reporter *reporter, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (reporter != NULL && reporter->report != NULL) {
    reporter->report(reporter->user_data, format, args);
  } else {
    fputs("ERROR: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
  }
  va_end(args);
}

// Looks up all functions in `library` (RTLD_DEFAULT: the process).  Returns NULL, or the name of a missing one.
static const char *look_up(void *library) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *function = dlsym(library, functions[i].name);
    if (function == NULL) return functions[i].name;
    memcpy(functions[i].slot, &function, sizeof function);
  }
  return NULL;
}

// Cuts the first line off *text, and returns it.
static char *line(char **text) {
  char *start = *text, *end = strchr(start, '\n');
  if (end == NULL) {
    *text = start + strlen(start);
  } else {
    *end = '\0';
    *text = end + 1;
  }
  return start;
}

// Sets path to the Python that PYLITE_PYTHON names, to the one that this library is installed for, or to "python3".
static void interpreter_path(char path[PATH_MAX]) {
  const char *chosen = getenv("PYLITE_PYTHON");
  Dl_info info;
  char own[PATH_MAX];
  if (chosen != NULL && *chosen != '\0' && strlen(chosen) < PATH_MAX) {
    strcpy(path, chosen);
    return;
  }
  if (dladdr((void *)interpreter_path, &info) != 0 && realpath(info.dli_fname, own) != NULL) {
    char *library = strstr(own, "/lib/python");        // PREFIX/lib/pythonX.Y/site-packages/pylite/...
    char *version = library == NULL ? NULL : library + strlen("/lib/");
    char *end = version == NULL ? NULL : strchr(version, '/');
    if (end != NULL) {
      *library = *end = '\0';
      if ((size_t)snprintf(path, PATH_MAX, "%s/bin/%s", own, version) < PATH_MAX && access(path, X_OK) == 0) return;
    }
  }
  strcpy(path, "python3");
}

// A program for that Python, which prints line by line: its path; its prefix; its search path and an empty line; paths
// where its shared library may be; END.
#define END "\n.\n"
static const char path_program[] =
  "import sys, sysconfig as s, os\n"
  "name, folders = s.get_config_var(\"INSTSONAME\") or s.get_config_var(\"LDLIBRARY\") or \"\", []\n"
  "for f in (s.get_config_var(\"LIBDIR\"), os.path.join(sys.base_prefix, \"lib\"), s.get_config_var(\"LIBPL\")):\n"
  "    folders += [f, os.path.join(f or \"\", s.get_config_var(\"MULTIARCH\") or \"\")] if f else []\n"
  "version = \"%d.%d\" % sys.version_info[:2] + getattr(sys, \"abiflags\", \"\")\n"
  "names = [n for n in (name, \"libpython\" + version + \".so.1.0\", \"libpython\" + version + \".so\",\n"
  "                     \"libpython\" + version + \".dylib\") if not n.endswith(\".a\") and n]\n"
  "print(sys.executable)\n"
  "print(sys.base_prefix + \":\" + sys.base_exec_prefix)\n"
  "print(*[p for p in sys.path if p], sep=\"\\n\", end=\"\\n\\n\")\n"
  "print(*[os.path.join(f, n) for n in names for f in folders], *names, \".\", sep=\"\\n\")\n";

// Reads `pipe` to its end into `answer`, even if signals arrive; returns the number of bytes, at most size - 1.
static size_t read_all(FILE *pipe, char *answer, size_t size) {
  size_t done = 0;
  for (ssize_t n = 1; n != 0 && done < size - 1;) {
    n = read(fileno(pipe), answer + done, size - 1 - done);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) done += n;
  }
  answer[done] = '\0';
  return done;
}

// Runs path_program; returns its output, which the caller frees, or NULL with a report.  A complete output is success,
// because a process that ignores SIGCHLD gets no exit status.
static char *python_paths(const char *python, const pl_reporter *reporter) {
  const size_t size = 65536;
  char *command = malloc(strlen(python) + sizeof path_program + 16), *answer = malloc(size);
  FILE *pipe = NULL;
  errno = 0;
  if (command != NULL && answer != NULL && strchr(python, '\'') == NULL) {
    sprintf(command, "exec '%s' -c '%s'", python, path_program);
    pipe = popen(command, "r");
  }
  const int problem = errno;
  free(command);
  if (pipe == NULL) {
    pl_report(reporter, "pylite: cannot start %s%s%s; set PYLITE_PYTHON to the path of the Python that has pylite",
              python, problem ? ": " : "", problem ? strerror(problem) : "");
    free(answer);
    return NULL;
  }
  const size_t length = read_all(pipe, answer, size), end = strlen(END);
  const int status = pclose(pipe);
  if (length >= end && memcmp(answer + length - end, END, end) == 0) {
    answer[length - end] = '\0';
    return answer;
  }
  free(answer);
  if (status != -1 && WIFSIGNALED(status))
    pl_report(reporter, "pylite: %s was ended by signal %d when it was asked for its paths", python, WTERMSIG(status));
  else
    pl_report(reporter, "pylite: cannot run %s (exit code %d); set PYLITE_PYTHON to the path of the Python that has "
              "pylite", python, status == -1 ? -1 : WEXITSTATUS(status));
  return NULL;
}

// Loads the first shared library of a list, one on each line, that can be loaded.  Returns it, or NULL with a report.
static void *load_library(char *files, const char *python, const pl_reporter *reporter) {
  char problem[512] = "";               // why an existing library cannot be loaded
  while (*files != '\0') {
    const char *file = line(&files);
    void *library = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    if (library != NULL) return library;
    const char *error = dlerror();
    if (error != NULL && access(file, F_OK) == 0) snprintf(problem, sizeof problem, "%s", error);
  }
  if (*problem != '\0')
    pl_report(reporter, "pylite: the shared library of %s cannot be loaded: %s", python, problem);
  else
    pl_report(reporter, "pylite: %s has no shared library (libpython3.X.so): install it (Debian: apt-get install "
              "libpython3-dev), or set PYLITE_PYTHON to a Python that has one", python);
  return NULL;
}

// Initializes Python as `executable` would.  Returns false, with a report, without memory.
static bool initialize(const char *executable, const char *prefix, const pl_reporter *reporter) {
  const char *home = getenv("PYTHONHOME");
  char *before = home == NULL ? NULL : strdup(home);
  if (before == NULL && home != NULL) {
    pl_report(reporter, "pylite: no memory for Python's environment");
    return false;
  }
  setenv("PYTHONHOME", prefix, 1);      // to find its own modules, not those of the first Python on PATH
  wchar_t *name = py.decode(executable, NULL);
  if (name != NULL) py.set_name(name);      // else `site` would use the venv of the first Python on PATH
  py.initialize(0);
  if (before == NULL) unsetenv("PYTHONHOME");
  else setenv("PYTHONHOME", before, 1);
  free(before);
  return true;
}

// Inserts folders, strings one after the other up to `end`, at the beginning of sys.path.
static void extend_path(const char *folders, const char *end) {
  PyObject *path = py.system("path");
  ptrdiff_t i = 0;
  for (; folders < end; folders += strlen(folders) + 1) {
    PyObject *text = py.text(folders);
    if (path != NULL && text != NULL) py.insert(path, i++, text);
    pl_release(text);
  }
}

// Starts Python, and releases the GIL.  Returns 0, or -1 with a report.
static int start(const pl_reporter *reporter) {
  char python[PATH_MAX];
  interpreter_path(python);
  char *answer = python_paths(python, reporter), *rest = answer;
  if (answer == NULL) return -1;
  const char *executable = line(&rest), *prefix = line(&rest), *folders = rest, *end = line(&rest);
  while (*end != '\0') end = line(&rest);       // an empty line follows the folders
  void *library = load_library(rest, python, reporter);
  const char *missing = library == NULL ? NULL : look_up(library);
  if (missing != NULL) pl_report(reporter, "pylite: the library of %s has no %s", python, missing);
  const bool started = library != NULL && missing == NULL && initialize(executable, prefix, reporter);
  if (started) extend_path(folders, end);
  free(answer);
  if (!started) return -1;
  py.save_thread();
  return 0;
}

// Reports the exception that was raised, and clears it.  format: of a message with the exception's text; otherwise: the
// text where there is no memory for it.
static void report_raised(const pl_reporter *reporter, const char *format, const char *otherwise) {
  PyObject *type, *value, *trace, *text = NULL, *bytes = NULL;
  py.fetch(&type, &value, &trace);
  py.normalize(&type, &value, &trace);
  if (value != NULL && module != NULL) bytes = py.call_method(module, "described", "(O)", value);
  else if (value != NULL) text = py.to_text(value);
  if (text != NULL) bytes = py.encode(text, "utf-8", "backslashreplace");
  if (bytes == NULL) py.clear();
  pl_report(reporter, format, bytes == NULL ? otherwise : py.bytes(bytes));
  // The caller gets a status only; Python raises it again once it runs its own code.
  if (type != NULL && py.matches(type, *py.keyboard_interrupt)) py.interrupt();
  pl_release(bytes);
  pl_release(text);
  pl_release(type);
  pl_release(value);
  pl_release(trace);
}

int pl_gil_take(pl_gil *gil, const pl_reporter *reporter) {
  static bool known;
  pthread_mutex_lock(&lock);
  bool failed = false;
  if (!known) {
    if (look_up(RTLD_DEFAULT) != NULL || !py.is_initialized()) failed = start(reporter) != 0;
    known = !failed;
  }
  pthread_mutex_unlock(&lock);
  if (failed) return -1;
  if (!py.is_initialized()) {
    pl_report(reporter, "pylite: Python has ended, and models cannot run any more");
    return -1;
  }
  gil->state = py.ensure();
  if (module == NULL) {
    PyObject *imported = py.import("pylite.clib");
    if (module == NULL) module = imported;         // another thread may have set it while the import released the GIL
    else pl_release(imported);
    if (module == NULL) {
      report_raised(reporter, "pylite: the module pylite.clib cannot be imported: %s. Set PYLITE_PYTHON to the path of "
                    "the Python that has pylite", "unknown error");
      py.release(gil->state);
      return -1;
    }
  }
  return 0;
}

int pl_gil_retake(pl_gil *gil) {
  if (!py.is_initialized()) return -1;
  gil->state = py.ensure();
  return 0;
}

void pl_gil_release(pl_gil gil) { py.release(gil.state); }

PyObject *pl_module(void) { return module; }

PyObject *pl_none(void) { return py.none; }

void pl_release(PyObject *object) {
  if (object != NULL) py.drop(object);
}

static PyObject *call(const pl_reporter *reporter, PyObject *object, const char *method, const char *format,
                      va_list args) {
  PyObject *function = py.get_attribute(object, method), *arguments = NULL, *result = NULL;
  if (function != NULL) arguments = py.build(format, args);
  if (arguments != NULL) result = py.call(function, arguments);
  if (result == NULL) report_raised(reporter, "%s", method);
  pl_release(arguments);
  pl_release(function);
  return result;
}

PyObject *pl_call(const pl_reporter *reporter, PyObject *object, const char *method, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *result = call(reporter, object, method, format, args);
  va_end(args);
  return result;
}

intptr_t pl_call_number(const pl_reporter *reporter, PyObject *object, const char *method, const char *format, ...) {
  va_list args;
  va_start(args, format);
  PyObject *result = call(reporter, object, method, format, args);
  va_end(args);
  if (result == NULL) return -1;
  intptr_t number = (intptr_t)py.as_number(result);
  pl_release(result);
  return number;
}
