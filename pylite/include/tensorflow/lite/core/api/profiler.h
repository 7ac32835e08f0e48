// What context->profiler points to, if it is not null: parts of a kernel report to it how long they take.
#ifndef TENSORFLOW_LITE_CORE_API_PROFILER_H_
#define TENSORFLOW_LITE_CORE_API_PROFILER_H_

#include <stdint.h>

namespace tflite {

// The host's.  The order of the virtual functions is that of binaries.
class Profiler {
 public:
  enum class EventType {
    DEFAULT = 1,
    OPERATOR_INVOKE_EVENT = 2,
    DELEGATE_OPERATOR_INVOKE_EVENT = 4,  // metadata: the number of the operator inside of the delegate
    DELEGATE_PROFILED_OPERATOR_INVOKE_EVENT = 8,
    GENERAL_RUNTIME_INSTRUMENTATION_EVENT = 16,
    TELEMETRY_EVENT = 32,
    TELEMETRY_REPORT_SETTINGS = 64,
    TELEMETRY_DELEGATE_EVENT = 128,
    TELEMETRY_DELEGATE_REPORT_SETTINGS = 256,
  };

  virtual ~Profiler() {}
  // Returns a handle for EndEvent.  pylite copies the tag.
  virtual uint32_t BeginEvent(const char* tag, EventType type, int64_t metadata1, int64_t metadata2) = 0;
  virtual void EndEvent(uint32_t handle, int64_t metadata1, int64_t metadata2) = 0;
  virtual void EndEvent(uint32_t handle) = 0;
  // metric: microseconds.
  virtual void AddEvent(const char* tag, EventType type, uint64_t metric, int64_t metadata1, int64_t metadata2) = 0;
  virtual void AddEventWithData(const char* tag, EventType type, const void* data) = 0;

  uint32_t BeginEvent(const char* tag, EventType type, int64_t metadata) { return BeginEvent(tag, type, metadata, 0); }
  void AddEvent(const char* tag, EventType type, uint64_t metric, int64_t metadata) {
    AddEvent(tag, type, metric, metadata, 0);
  }
};

// An event that lasts as long as this object.  profiler: may be null.
class ScopedProfile {
 public:
  ScopedProfile(Profiler* profiler, const char* tag, Profiler::EventType type = Profiler::EventType::DEFAULT,
                int64_t metadata = 0)
      : profiler_(profiler), handle_(profiler != nullptr ? profiler->BeginEvent(tag, type, metadata) : 0) {}
  ~ScopedProfile() {
    if (profiler_ != nullptr) profiler_->EndEvent(handle_);
  }
  ScopedProfile(const ScopedProfile&) = delete;
  ScopedProfile& operator=(const ScopedProfile&) = delete;

 private:
  Profiler* profiler_;
  uint32_t handle_;
};

class ScopedOperatorProfile : public ScopedProfile {
 public:
  ScopedOperatorProfile(Profiler* profiler, const char* tag, int node)
      : ScopedProfile(profiler, tag, Profiler::EventType::OPERATOR_INVOKE_EVENT, node) {}
};

class ScopedDelegateOperatorProfile : public ScopedProfile {
 public:
  ScopedDelegateOperatorProfile(Profiler* profiler, const char* tag, int node)
      : ScopedProfile(profiler, tag, Profiler::EventType::DELEGATE_OPERATOR_INVOKE_EVENT, node) {}
};

}  // namespace tflite

#define TFL_PROFILE_NAMED(name, line) name##line
#define TFL_PROFILE_NAME(line) TFL_PROFILE_NAMED(tfl_profile_, line)
#define TFLITE_SCOPED_TAGGED_DEFAULT_PROFILE(profiler, tag) tflite::ScopedProfile TFL_PROFILE_NAME(__LINE__)(profiler, tag)
#define TFLITE_SCOPED_TAGGED_OPERATOR_PROFILE(profiler, tag, node) \
  tflite::ScopedOperatorProfile TFL_PROFILE_NAME(__LINE__)(profiler, tag, node)
#define TFLITE_SCOPED_DELEGATE_OPERATOR_PROFILE(profiler, tag, node) \
  tflite::ScopedDelegateOperatorProfile TFL_PROFILE_NAME(__LINE__)(profiler, tag, node)

#endif
