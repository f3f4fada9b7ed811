#include "engine/report/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace cuboid {

std::size_t Terminal::width() const {
  struct winsize size {};
  if (::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 80;
}

void Terminal::write(const std::string& text) const {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t wrote = ::write(descriptor_, text.data() + at, text.size() - at);
    if (wrote >= 0) {
      at += static_cast<std::size_t>(wrote);
    } else if (errno == EAGAIN) {
      struct pollfd wait {
        descriptor_, POLLOUT, 0
      };
      ::poll(&wait, 1, 100);
    } else if (errno != EINTR) {
      return;  // nobody listens: a run does not fail for want of an audience
    }
  }
}

void Terminal::line(const std::string& text) {
  if (prompting_) {
    write("\r\x1b[K" + text + "\n" + prompt_);
    return;
  }
  write(status_.empty() ? text + "\n" : "\r\x1b[K" + text + "\n" + status_);
}

void Terminal::set_status(const std::string& text) {
  if (!live_ || text == status_) return;
  status_ = text;
  if (!prompting_) write("\r" + text + "\x1b[K");
}

void Terminal::clear_status() {
  if (!status_.empty() && !prompting_) write("\r\x1b[K");
  status_.clear();
}

void Terminal::prompt(const std::string& text) {
  if (!status_.empty() && !prompting_) write("\r\x1b[K");
  prompting_ = true;
  prompt_ = text.substr(text.rfind('\n') + 1);  // what is shown again below other lines
  write(text);
}

void Terminal::end_prompt(bool answered) {
  prompting_ = false;
  if (!answered) write("\n");  // an answer ends its line by itself
  if (!status_.empty()) write("\r" + status_ + "\x1b[K");
}

}  // namespace cuboid
