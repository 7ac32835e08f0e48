/* What the models of algorithms share: each is run in many orders of its threads' steps, then with each planted fault. */
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <relacy/relacy.hpp>        /* after the others: it redefines delete */

static int fault;       /* the number of the fault that is planted, or 0 */

/* Returns 0 if `count` orders are right and each of the faults 1..faults is found. */
template <typename model> int check(const char *name, const char *count, int faults) {
  std::ofstream nowhere("/dev/null");
  for (fault = 0; fault <= faults; fault++) {
    rl::test_params params;
    params.iteration_count = (rl::iteration_t)atoll(count);
    params.execution_depth_limit = 20000;
    params.progress_stream = &nowhere;
    if (fault) params.output_stream = &nowhere;
    if (rl::simulate<model>(params) != !fault) {
      std::cout << name << ": " << (fault ? "a planted fault is not found: " : "a fault is found: ") << fault << "\n";
      return 1;
    }
  }
  std::cout << name << ": " << count << " orders are right, " << faults << " planted faults are found\n";
  return 0;
}
